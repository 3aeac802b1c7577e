package lab

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/status"
)

// TestMetrics_MatchTheAPI: the metrics over TCP and over the control socket match the API,
// and add up.
func TestMetrics_MatchTheAPI(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t, "ping"), t.TempDir(), testlab.TwoHosts)
	found := testlab.MetricsURL.FindStringSubmatch(l.Must("up", "-d", "--metrics", ":0", l.File)) // no host means loopback
	if found == nil {
		t.Fatal("up does not say where the metrics are")
	}
	url := found[1]
	l.Must("set", "-l", l.Name, "h2:eth0", "loss=20%")
	_, _, _ = l.Run("exec", "-l", l.Name, "h1", "--", "ping", "-f", "-c", "200", "h2")
	l.WaitQuiet()
	tcp, socket := &http.Client{}, testlab.SocketClient(filepath.Join("/run/weft", l.Name, lab.SocketName))
	var s, again testlab.Metrics
	var ports map[string]status.Port
	// Hosts' kernels sometimes send packets unprompted: compare values of one
	// moment only.
	l.WaitFor("both metrics in a moment in which no packet moves", func() bool {
		before := l.Ports()
		s, again = testlab.Scrape(t, tcp, url+"/metrics"), testlab.Scrape(t, socket, "http://lab/metrics")
		ports = l.Ports()
		return cmp.Equal(before, ports, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".QueueMean" }, cmp.Ignore()))
	})
	for name, p := range ports {
		want := map[string]uint64{
			"weft_port_receive_packets_total": p.RxPackets, "weft_port_receive_bytes_total": p.RxBytes,
			"weft_port_transmit_packets_total": p.TxPackets, "weft_port_transmit_bytes_total": p.TxBytes,
			"weft_port_marked_packets_total": p.Marked, "weft_port_queue_max_bytes": uint64(p.QueueMax), "weft_port_queue_limit_bytes": uint64(p.QueueLimit),
			"weft_link_speed_bytes_per_second": 100e6 / 8, "weft_link_up": 1,
		}
		for metric, v := range want {
			key := l.MetricKey(metric, &p, "")
			for where, got := range map[string]testlab.Metrics{"TCP": s, "the socket": again} {
				if x, ok := got[key]; !ok || x != float64(v) {
					t.Errorf("%s over %s is %v, and the API says %v", key, where, x, v)
				}
			}
		}
		for reason, n := range p.Drops {
			if got := s[l.MetricKey("weft_port_dropped_packets_total", &p, " reason="+reason)]; got != float64(n) {
				t.Errorf("%s: %v drops for %s, and the API says %v", name, got, reason, n)
			}
		}
	}
	if ports["h2:eth0"].Drops["link-loss"] == 0 {
		t.Error("nothing was lost, so drops were not tried")
	}
	of := func(name string) float64 { return s["weft_lab_"+name+" lab="+l.Name] }
	in := of("entered_packets_total") + of("originated_packets_total") + of("replicated_packets_total") + of("duplicated_packets_total")
	dropped := 0.0
	for key, v := range s {
		if strings.HasPrefix(key, "weft_lab_dropped_packets_total ") {
			dropped += v
		}
	}
	if out := of("delivered_packets_total") + of("consumed_packets_total") + dropped + of("held_packets"); in == 0 || in != out {
		t.Errorf("%v packets came in and %v are accounted for", in, out)
	}
	if of("emulated_seconds_total") <= 0 || s["weft_engine_cpu_seconds_total lab="+l.Name] <= 0 || s["weft_engine_lateness_p99_seconds lab="+l.Name] <= 0 {
		t.Errorf("time, CPU or lateness is missing: %v", s)
	}

	// Nothing else is served over TCP.
	r, err := tcp.Get(url + "/v1/lab")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	if r.StatusCode != http.StatusNotFound {
		t.Errorf("GET /v1/lab over TCP: %s", r.Status)
	}
	tcp.CloseIdleConnections()
	l.Down()
	if c, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), time.Second); err == nil {
		c.Close()
		t.Error("the port is open after the lab's end")
	}
}

// TestMetricsAddress_IsCheckedFirst: an unavailable address is refused before anything is created.
func TestMetricsAddress_IsCheckedFirst(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t), t.TempDir(), testlab.TwoHosts)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		address string
		code    int
		says    string
	}{
		{"9464", testlab.ExitBadInput, "host:port"}, {"127.0.0.1:http!", testlab.ExitBadInput, "not a port"}, {"127.0.0.1:99999", testlab.ExitBadInput, "not a port"}, {"::1", testlab.ExitBadInput, "host:port"},
		{taken.Addr().String(), testlab.ExitFailed, "in use"}, {"192.0.2.1:9464", testlab.ExitFailed, "192.0.2.1"},
	} {
		for _, detach := range [][]string{nil, {"-d"}} {
			_, e, code := l.Run(append(append([]string{"up"}, detach...), "--metrics", c.address, l.File)...)
			if code != c.code || !strings.Contains(e, c.says) {
				t.Errorf("--metrics %s %v: exit code %d, want %d, and %q", c.address, detach, code, c.code, e)
			}
			if left := testlab.Residue(t, l.Name); len(left) > 0 {
				t.Errorf("--metrics %s %v: made %v", c.address, detach, left)
			}
		}
	}
}
