package extension

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// extensionLab has the extension's congestion point in two classes: the NICs' class,
// which is lossless, and the class of the hosts' own traffic, which arrives in super-packets.
const extensionLab = `
duration: 1h
topology:
  kinds:
    host: {offload: on, edge: {brake: {pause: 1ms}}, nic: {cc: brake, dscp: 26, mtu: 1024, timeout: none}}
    switch:
      buffer: {size: 1MB}
      classes:
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 20KB, xon: 10KB}, mark: {brake: {above: 15KB}}}
        feedback: {dscp: 48, priority: 6}
        default: {weight: 1, mark: {brake: {above: 15KB}}}
  generate: {star: {hosts: 3, rate: 50Mbps, delay: 50us}}
workload:
  - {incast: {to: h1, from: [h2, h3], size: 50KB, count: unlimited, depth: 4}}
`

// TestExtension_WorksWithRealHosts is TestExtension_IsTreatedLikeWeftsOwn in wall-clock time, with
// real hosts.
func TestExtension_WorksWithRealHosts(t *testing.T) {
	t.Parallel()
	weft := extension(t) // before the test has a turn, as it takes long
	testlab.Need(t, "iperf3")
	l := testlab.New(t, weft, t.TempDir(), extensionLab)
	l.Must("up", "-d", "--workload", "--for", "10min", l.File)
	heardBy := func(host string) (heard float64) {
		t.Helper()
		var pairs []status.QP
		if err := json.Unmarshal([]byte(l.Must("qp", "-l", l.Name, "--json", host)), &pairs); err != nil {
			t.Fatal(err)
		}
		for _, q := range pairs {
			heard += gaugeOf(t, q.Gauges, "notices")
			if rate := gaugeOf(t, q.Gauges, "allowed"); q.Control != extensionPoint || rate <= 0 || rate > 50e6 {
				t.Errorf("%+v", q)
			}
		}
		return heard
	}
	l.WaitFor("flows of both senders hear messages", func() bool { return heardBy("h2") > 0 && heardBy("h3") > 0 })
	// Few packets and little of each, so that a busy machine can write them.
	stop := l.Capture("s1:h1", "h2:eth0", "-s", "256", "-c", "2000")
	// The edge service is notified of the hosts' own traffic and delays it; nothing is lost.
	if r := l.Iperf3("h2", "h1", "h1", "-n", "2M"); r.End.Received.Bytes < 1e6 { // packets in flight at the end do not count
		t.Errorf("%+v", r)
	}
	file := stop()
	r := l.Down()
	port := testlab.PortOf(t, r, "s1:h1")
	for _, class := range []string{"roce", "default"} {
		if sent := gaugeOf(t, testlab.ClassOf(t, port, class).Gauges, "notices"); sent == 0 {
			t.Errorf("the point of %s sent nothing", class)
		}
	}
	if e := testlab.PortOf(t, r, "h2:eth0").Edge; e == nil || gaugeOf(t, e.Gauges, "notices") == 0 {
		t.Errorf("edge service: %+v", e)
	}
	paused := testlab.ClassOf(t, testlab.PortOf(t, r, "h2:eth0"), "roce").PauseFramesRx + testlab.ClassOf(t, testlab.PortOf(t, r, "h3:eth0"), "roce").PauseFramesRx
	if paused == 0 || testlab.ClassOf(t, port, "roce").Dropped > 0 || !r.Accounts.Balanced() {
		t.Errorf("%d pauses, %d dropped, %+v", paused, testlab.ClassOf(t, port, "roce").Dropped, r.Accounts)
	}
	notices(t, weft, file, 15*units.KB)
}

// TestExtension_LabThatEndsReports: a lab that ends by itself prints the report.
func TestExtension_LabThatEndsReports(t *testing.T) {
	t.Parallel()
	weft := extension(t)
	testlab.Need(t)
	l := testlab.New(t, weft, t.TempDir(), extensionLab)
	var r report.Report
	_, body, _ := strings.Cut(l.Must("up", "--workload", "--for", "1s", "--json", l.File), "{") // after the message that the lab is up
	if err := json.Unmarshal([]byte("{"+body), &r); err != nil {
		t.Fatal(err)
	}
	if gaugeOf(t, testlab.ClassOf(t, testlab.PortOf(t, &r, "s1:h1"), "roce").Gauges, "notices") == 0 {
		t.Error("no message in a second of a queue that is always long")
	}
}
