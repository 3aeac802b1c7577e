package lab

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/observe/series"
)

// TestLimit_HoldsEachFlowOfAProgram: each flow of iperf3 gets its own rate from a limiter, from
// TAPs and TUNs; nothing is lost; and the commands show the rate.
func TestLimit_HoldsEachFlowOfAProgram(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds: {host: {edge: {limit: {rate: 20Mbps, age: 10min}}}, link: {rate: 100Mbps, delay: 10us}}
  generate: {star: {hosts: 3}}
  nodes:
    h2: {attach: tun, edge: {limit: {rate: 40Mbps}}}
    h3: {edge: none}
`, "iperf3", "ping")
	l.Ping("h1", 3, "h3")
	for _, c := range []struct {
		from    string
		flags   []string
		maxRate float64 // Mb/s
	}{
		{"h1", []string{"-n", "2M"}, 20},
		{"h1", []string{"-n", "2M", "-6"}, 20},
		{"h1", []string{"-n", "4M", "-P", "3"}, 60},
		{"h1", []string{"-n", "2M", "-u", "-b", "90M", "-l", "1200"}, 20},
		{"h1", []string{"-n", "4M", "-R"}, 100}, // h3 has no limit
		{"h2", []string{"-n", "4M"}, 40},
	} {
		port, direction := "s1:"+c.from, "--in"
		if slices.Contains(c.flags, "-R") {
			direction = "--out"
		}
		stop := l.Capture(port, direction, "-s", "100")
		l.Iperf3(c.from, "h3", "h3", c.flags...)
		got := rateIn(t, stop()) / 1e6
		t.Logf("%s %v: %.1f Mb/s", c.from, c.flags, got)
		if got < c.maxRate/10 || got > 1.02*c.maxRate {
			t.Errorf("%s %v: %.1f Mb/s, want %.0f", c.from, c.flags, got, c.maxRate)
		}
	}
	var flows []status.EdgeFlow
	if err := json.Unmarshal([]byte(l.Must("edge", "-l", l.Name, "h1", "--json")), &flows); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range flows {
		seen[f.Protocol] = true
		if f.Port != "h1:eth0" || f.Peer != "h3:eth0" || f.Rate != 20_000_000 || f.Dropped != 0 {
			t.Errorf("%+v", f)
		}
	}
	if !seen["tcp"] {
		t.Errorf("%+v", flows)
	}
	if out := l.Must("edge", "-l", l.Name); !strings.Contains(out, "h2:eth0") || !strings.Contains(out, "40Mbps") {
		t.Errorf("%s", out)
	}
	if p := l.Ports()["h1:eth0"]; p.Edge == nil || p.Edge.Service != "limit" {
		t.Errorf("%+v", p.Edge)
	}
	if _, stderr, code := l.Run("edge", "-l", l.Name, "h3"); code == 0 || !strings.Contains(stderr, "h3 has no edge service") {
		t.Errorf("%d, %s", code, stderr)
	}
	r := l.Down()
	for _, h := range r.Hosts {
		if h.TxDropped+h.QueueDropped != 0 {
			t.Errorf("%+v", h)
		}
	}
	if r.Accounts.Dropped != 0 || !r.Accounts.Balanced() {
		t.Errorf("%+v", r.Accounts)
	}
}

// TestQCN_KeepsTheQueueOfProgramsFromDropping: the messages of a switch slow down the flows of iperf3 that share its
// queue, so that it drops nothing.
func TestQCN_KeepsTheQueueOfProgramsFromDropping(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds:
    host: {edge: {limit: {cc: qcn}}, sysctls: {net.ipv4.tcp_congestion_control: reno}}
    switch: {queue: {limit: 500KB, mark: qcn}}
    link: {rate: 100Mbps, delay: 10us}
  generate: {star: {hosts: 3}}
`, "iperf3")
	l.StartServer("h3", "iperf3", "-s", "-1", "-p", "5300")
	l.WaitListening("h3", "5300")
	l.StartServer("h2", "iperf3", "-c", "h3", "-p", "5300", "-t", "600")
	l.StartServer("h3", "iperf3", "-s", "-1")
	l.WaitListening("h3", "5201")
	l.StartServer("h1", "iperf3", "-c", "h3", "-t", "600")
	l.WaitFor("messages of the switch at both senders", func() bool {
		ports := l.Ports()
		return messages(ports["h1:eth0"]) > 10 && messages(ports["h2:eth0"]) > 10
	})
	l.WaitPackets("s1:h3", 5000)
	if a := l.Down().Accounts; a.Drops["queue-full"] != 0 || !a.Balanced() {
		t.Errorf("%+v", a)
	}
}

// messages returns how many messages of switches the edge service of a port has received.
func messages(p status.Port) float64 {
	for _, g := range p.Edge.Gauges {
		if g.Name == "messages" {
			return g.Value
		}
	}
	return 0
}

// TestGauges_OfEdgeServicesAreInEveryOutput: in wall-clock time the gauges of the edge service, of iperf3's flow
// in it and of a switch's congestion point are in metrics, in weft ps and in both kinds of
// series, with one worker and with two.
func TestGauges_OfEdgeServicesAreInEveryOutput(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "iperf3")
	for name, workers := range map[string]string{"one": "1", "two": "2"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := testlab.New(t, testlab.Need(t, "iperf3"), dir, `
topology:
  kinds: {switch: {queue: {limit: 500KB, mark: {pi: {target: 50KB}}}}, link: {rate: 100Mbps}}
  generate: {dumbbell: {left: 1, right: 1, rate: 100Mbps, delay: 10us, bottleneck: {rate: 100Mbps, delay: 100us}}}
  nodes: {h1: {edge: {limit: {rate: 20Mbps, age: 10min}}}}
`)
			l.Workers = workers
			queues, flows := filepath.Join(dir, "q.csv"), filepath.Join(dir, "f.csv")
			found := testlab.MetricsURL.FindStringSubmatch(l.Must("up", "-d", "--metrics", ":0", "--series", queues, "--series-port", "*:*", "--flow-series", flows, "--every", "2ms", l.File))
			if found == nil {
				t.Fatal("up does not say where the metrics are")
			}
			l.Iperf3("h1", "h2", "h2", "-t", "1", "-4")
			port := " lab=" + l.Name + " node=h1 port=h1:eth0"
			client := &http.Client{}
			defer client.CloseIdleConnections()
			tcp, metrics := "", testlab.Scrape(t, client, found[1]+"/metrics")
			for key, v := range metrics {
				if rest, is := strings.CutPrefix(key, "weft_edge_flow_bytes_per_second flow=tcp "); is && v == 20e6/8 && metrics["weft_edge_flow_transmit_bytes_total flow=tcp "+strings.Replace(rest, " gauge=rate", "", 1)] > 100_000 {
					tcp, _, _ = strings.Cut(rest, " gauge=")
				}
			}
			if tcp == "" || metrics["weft_edge_value gauge=flows"+port+" service=limit"] < 1 {
				t.Errorf("%q, %v", tcp, metrics)
			}
			if out := l.Must("ps", "-p", l.Name); !strings.Contains(out, "limit: flows ") || !strings.Contains(out, "mark probability ") {
				t.Errorf("%s", out)
			}
			r := l.Down()
			if r.Series == nil || r.Series.Error != "" || r.FlowSeries == nil || r.FlowSeries.Flows == 0 || r.FlowSeries.Error != "" {
				t.Fatalf("%+v, %+v", r.Series, r.FlowSeries)
			}
			checkQueueGauges(t, queues)
			checkEdgeFlows(t, flows, "tcp "+tcp)
		})
	}
}

// checkQueueGauges checks that the rows of switches have the probability of PI, and the
// rows of h1 the gauges of its edge service.
func checkQueueGauges(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	x, err := series.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := x.FindQuantity("mark-probability")
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := x.FindQuantity("edge_waiting_bytes")
	if err != nil {
		t.Fatal(err)
	}
	maxRate := 0.0
	if err := x.EachRow(func(r *series.Row) error {
		if _, ok := p.ValueIn(r); ok != (r.Port[0] == 's') {
			t.Fatalf("%+v", r)
		}
		v, ok := waiting.ValueIn(r)
		if ok != (r.Port == "h1:eth0") {
			t.Fatalf("%+v", r)
		}
		maxRate = max(maxRate, v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if maxRate < 1500 {
		t.Errorf("at most %v bytes waited in the edge service", maxRate)
	}
}

// checkEdgeFlows checks that the flow has rows with its rate, which add up to about what iperf3
// has sent, 2.5 MB on a machine that is not busy.
func checkEdgeFlows(t *testing.T, name, flow string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	x, err := series.NewFlowReader(file)
	if err != nil {
		t.Fatal(err)
	}
	rate, _ := x.FindQuantity("rate")
	sent, _ := x.FindQuantity("sent")
	bytes := 0.0
	if err := x.EachRow(func(r *series.FlowRow) error {
		if r.NIC != "h1:eth0" || r.Name == "" || r.Values[rate] != 20e6 {
			t.Fatalf("%+v", r)
		}
		if r.Name == flow {
			bytes += r.Values[sent] / 8 * r.Interval.Seconds()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if bytes < 1e5 || bytes > 4e6 {
		t.Errorf("%s has sent %.0f bytes", flow, bytes)
	}
}
