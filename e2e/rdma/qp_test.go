package rdma

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/status"
)

// TestNICsOfARunningLab_CanBeInspected inspects the NICs of a lab in wall-clock time in all
// ways: commands, completion, API and metrics.
func TestNICsOfARunningLab_CanBeInspected(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t), t.TempDir(), `
duration: 1h
topology:
  kinds: {host: {attach: none, nic: {cc: dcqcn, dscp: 26, timeout: 1s}}}
  generate: {star: {hosts: 3, rate: 50Mbps, delay: 10us}}
workload:
  - {incast: {to: h1, from: [h2, h3], size: 20KB, count: unlimited, depth: 2, qps: 2}}
`)
	l.Must("up", "-d", "--workload", l.File)
	pairs := func(args ...string) (list []status.QP) {
		t.Helper()
		if err := json.Unmarshal([]byte(l.Must(append([]string{"qp", "-l", l.Name, "--json"}, args...)...)), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	l.WaitFor("packets of both queue pairs of h2", func() bool {
		list := pairs("h2")
		return len(list) == 2 && list[0].SQPSN > 100 && list[1].SQPSN > 100
	})
	for name, want := range map[string]int{"": 8, "h1": 4, "h2:eth0": 2, l.Name + "/h3": 2} {
		args := []string{name}
		if name == "" {
			args = nil
		}
		if list := pairs(args...); len(list) != want {
			t.Errorf("%q has %d queue pairs, want %d", name, len(list), want)
		}
	}
	one := pairs("h2")[0]
	if one.Peer != "h1:eth0" || one.State != "RTS" || one.SQPSN <= 100 || one.TxPackets == 0 {
		t.Errorf("%+v", one)
	}
	number := strconv.Itoa(int(one.QPN))
	if o := l.Must("qp", "-l", l.Name, "h2:eth0", number); !strings.HasPrefix(o, "h2:eth0 queue pair "+number+" (0x") || !strings.Contains(o, "h1:eth0 queue pair") {
		t.Errorf("%s", o)
	}
	if o := l.Must("qp", "-l", l.Name); strings.Count(o, "\n") != 9 || !strings.HasPrefix(o, "nic ") {
		t.Errorf("%s", o)
	}
	if o := l.Must("nic", "-l", l.Name); strings.Count(o, "\n") != 4 || !strings.Contains(o, "\nh3:eth0 ") {
		t.Errorf("%s", o)
	}
	if o := l.Must("nic", "-l", l.Name, "h1", "--all"); !strings.Contains(o, "preset connectx") || !strings.Contains(o, "rx_write_requests") || !strings.Contains(o, "rx_icrc_encapsulated") {
		t.Errorf("%s", o)
	}
	if _, e, code := l.Run("qp", "-l", l.Name, "h2", "9999"); code != 2 || !strings.Contains(e, "no queue pair 9999") {
		t.Errorf("exit code %d, %q", code, e)
	}
	for _, name := range []string{"h9", "s1", "s1:h1"} {
		if _, e, code := l.Run("nic", "-l", l.Name, name); code != 2 || e == "" {
			t.Errorf("%s: exit code %d, %q", name, code, e)
		}
	}
	completes(l, []string{"qp", "-l", l.Name, ""}, "h1", "h1:eth0", "h3:eth0")
	completes(l, []string{"qp", "-l", l.Name, "h2", ""}, number)
	completes(l, []string{"nic", "-l", l.Name, ""}, "h2", "h2:eth0")

	socket := testlab.SocketClient(filepath.Join("/run/weft", l.Name, lab.SocketName))
	scraped := testlab.Scrape(t, socket, "http://lab/metrics")
	port := status.Port{Name: "h2:eth0", Node: "h2"}
	if n := scraped[l.MetricKey("weft_nic_port_xmit_packets_total", &port, "")]; n == 0 {
		t.Error("weft_nic_port_xmit_packets_total is 0")
	}
	if n := scraped[l.MetricKey("weft_nic_queue_pairs", &port, " state=RTS")]; n != 2 {
		t.Errorf("%v queue pairs in RTS", n)
	}
	for path, status := range map[string]int{"/v1/nics": 200, "/v1/nics/h1": 200, "/v1/nics/h1:eth0/qps": 200, "/v1/qps": 200, "/v1/nics/h9": 404, "/v1/nics/s1/qps": 404} {
		r, err := socket.Get("http://lab" + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != status {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}

// completes checks that completion offers these, and possibly others.
func completes(l *testlab.Lab, args []string, want ...string) {
	l.T.Helper()
	offered := strings.Split(l.Must(append([]string{"__complete"}, args...)...), "\n")
	for _, w := range want {
		found := false
		for _, o := range offered {
			found = found || o == w
		}
		if !found {
			l.T.Errorf("weft %v offers %q, not %q", args, offered, w)
		}
	}
}
