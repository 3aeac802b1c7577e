package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/lab"
)

// values are the values of a scrape, by name and labels.
type values map[string]float64

// metricKey returns the key of a metric of a port.
func (l *realLab) metricKey(name string, p *fabric.PortStatus, more string) string {
	return fmt.Sprintf("%s lab=%s node=%s port=%s%s", name, l.name, p.Node, p.Name, more)
}

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, client *http.Client, url string) values {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, r.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := values{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			if _, ok := out[key]; ok {
				t.Errorf("%s is there twice", key)
			}
			out[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// socketClient returns a client of a lab's control socket.
func socketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

var metricsURL = regexp.MustCompile(`(?m)^metrics: (http://127\.0\.0\.1:\d+)/metrics$`)

// TestMetrics: the metrics over TCP and over the control socket match the API,
// and add up.
func TestMetrics(t *testing.T) {
	l := newLab(t, needReal(t, "ping"), t.TempDir(), pair)
	found := metricsURL.FindStringSubmatch(l.must("up", "-d", "--metrics", ":0", l.file)) // no host means loopback
	if found == nil {
		t.Fatal("up does not say where the metrics are")
	}
	url := found[1]
	l.must("set", "-l", l.name, "h2:eth0", "loss=20%")
	_, _, _ = l.run("exec", "-l", l.name, "h1", "--", "ping", "-f", "-c", "200", "h2")
	l.quiet()
	tcp, socket := &http.Client{}, socketClient(filepath.Join("/run/weft", l.name, lab.SocketName))
	var s, again values
	var ports map[string]fabric.PortStatus
	// Hosts' kernels sometimes send packets unprompted: compare values of one
	// moment only.
	for try := 0; ; try++ {
		before := l.ports()
		s, again = scrape(t, tcp, url+"/metrics"), scrape(t, socket, "http://lab/metrics")
		if ports = l.ports(); cmp.Equal(before, ports, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".QueueMean" }, cmp.Ignore())) {
			break
		}
		if try == 50 {
			t.Fatal("the lab does not become quiet")
		}
	}
	for name, p := range ports {
		want := map[string]uint64{
			"weft_port_receive_packets_total": p.RxPackets, "weft_port_receive_bytes_total": p.RxBytes,
			"weft_port_transmit_packets_total": p.TxPackets, "weft_port_transmit_bytes_total": p.TxBytes,
			"weft_port_marked_packets_total": p.Marked, "weft_port_queue_max_bytes": uint64(p.QueueMax), "weft_port_queue_limit_bytes": uint64(p.QueueLimit),
			"weft_link_speed_bytes_per_second": 100e6 / 8, "weft_link_up": 1,
		}
		for metric, v := range want {
			key := l.metricKey(metric, &p, "")
			for where, got := range map[string]values{"TCP": s, "the socket": again} {
				if x, ok := got[key]; !ok || x != float64(v) {
					t.Errorf("%s over %s is %v, and the API says %v", key, where, x, v)
				}
			}
		}
		for reason, n := range p.Drops {
			if got := s[l.metricKey("weft_port_dropped_packets_total", &p, " reason="+reason)]; got != float64(n) {
				t.Errorf("%s: %v drops for %s, and the API says %v", name, got, reason, n)
			}
		}
	}
	if ports["h2:eth0"].Drops["link-loss"] == 0 {
		t.Error("nothing was lost, so drops were not tried")
	}
	of := func(name string) float64 { return s["weft_lab_"+name+" lab="+l.name] }
	in := of("entered_packets_total") + of("originated_packets_total") + of("replicated_packets_total") + of("duplicated_packets_total")
	dropped := 0.0
	for key, v := range s {
		if strings.HasPrefix(key, "weft_lab_dropped_packets_total ") {
			dropped += v
		}
	}
	if out := of("delivered_packets_total") + dropped + of("held_packets"); in == 0 || in != out {
		t.Errorf("%v packets came in and %v are accounted for", in, out)
	}
	if of("emulated_seconds_total") <= 0 || s["weft_engine_cpu_seconds_total lab="+l.name] <= 0 || s["weft_engine_lateness_p99_seconds lab="+l.name] <= 0 {
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
	l.down()
	if c, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), time.Second); err == nil {
		c.Close()
		t.Error("the port is open after the lab's end")
	}
}

// TestMetricsAddress: an unavailable address is refused before anything is created.
func TestMetricsAddress(t *testing.T) {
	l := newLab(t, needReal(t), t.TempDir(), pair)
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
		{"9464", exitBadInput, "host:port"}, {"127.0.0.1:http!", exitBadInput, "not a port"}, {"127.0.0.1:99999", exitBadInput, "not a port"}, {"::1", exitBadInput, "host:port"},
		{taken.Addr().String(), exitFailed, "in use"}, {"192.0.2.1:9464", exitFailed, "192.0.2.1"},
	} {
		for _, detach := range [][]string{nil, {"-d"}} {
			_, e, code := l.run(append(append([]string{"up"}, detach...), "--metrics", c.address, l.file)...)
			if code != c.code || !strings.Contains(e, c.says) {
				t.Errorf("--metrics %s %v: exit code %d, want %d, and %q", c.address, detach, code, c.code, e)
			}
			if left := residue(t, l.name); len(left) > 0 {
				t.Errorf("--metrics %s %v: made %v", c.address, detach, left)
			}
		}
	}
}

// TestMetricsRootless: a rootless lab has its own network, and its metrics are
// on the machine's.
func TestMetricsRootless(t *testing.T) {
	l := userLab(t, pair)
	found := metricsURL.FindStringSubmatch(l.must("up", "-d", "--metrics", "127.0.0.1:0", l.file))
	if found == nil {
		t.Fatal("up does not say where the metrics are")
	}
	if s := scrape(t, &http.Client{}, found[1]+"/metrics"); s["weft_lab_emulated_seconds_total lab="+l.name] <= 0 {
		t.Errorf("the metrics of %s: %v", l.name, s)
	}
	l.down()
	// In the foreground another process passes the socket on.
	c := l.command("up", "--for", "60s", "--metrics", "127.0.0.1:0", l.file)
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c.Stdout = out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Signal(os.Interrupt); _ = c.Wait() }()
	for range 300 {
		text, _ := os.ReadFile(out.Name())
		if found = metricsURL.FindStringSubmatch(string(text)); found != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if found == nil {
		t.Fatal("up does not say where the metrics are")
	}
	if s := scrape(t, &http.Client{}, found[1]+"/metrics"); len(s) == 0 {
		t.Error("no metrics")
	}
}
