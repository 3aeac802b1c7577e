package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/nicemu"
	gauges "github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// sample returns a sample with everything that a sample may have, all numbers different.
func sample() *report.Sample {
	return &report.Sample{
		Lab: "two", Dilation: 100, Clock: "wall", Emulated: 2500 * units.Millisecond, Events: 101, Trouble: "the machine does not keep up",
		Accounts: status.Accounts{Entered: 102, Originated: 103, Replicated: 104, Duplicated: 105, Delivered: 106, Dropped: 12, Held: 108, Marked: 109, Drops: map[string]uint64{"queue-full": 10, "bad-fcs": 2}},
		Timing: report.Timing{
			Stood:    3 * units.Millisecond,
			Lateness: status.Lateness{Count: 110, P50: 5 * units.Microsecond, P99: 80 * units.Microsecond, P999: 2 * units.Millisecond, Max: 3 * units.Millisecond, Limit: units.Millisecond, Beyond: 9},
		},
		CPUTime: 1250 * units.Millisecond, EngineCPUTime: 750 * units.Millisecond,
		Ports: []status.Port{
			{
				Name: "s1:2", Peer: "h2:eth0", Node: "s1", Kind: "switch",
				Link:         &status.Link{Rate: units.Gbps, State: links.Up, InFlight: 201, Corrupted: 202, Duplicated: 203, Reordered: 204},
				QueuePackets: 205, QueueBytes: 206, QueueLimit: 207, QueueMax: 208, RxPackets: 209, RxBytes: 210, TxPackets: 211, TxBytes: 212,
				Marked: 213, Dropped: 12, Drops: map[string]uint64{"queue-full": 10, "bad-fcs": 2}, Trimmed: 214,
				Classes: []status.Class{
					{Name: "default", QueuePackets: 301, QueueBytes: 302, QueueLimit: 303, QueueMax: 304, TxPackets: 305, TxBytes: 306, Marked: 307, Trimmed: 308, Dropped: 309,
						Gauges: []gauges.Value{{Name: "dropping", Unit: gauges.YesNo, Value: 1}, {Name: "count", Value: 311}, {Name: "excess", Unit: gauges.Bytes, Value: 312}}},
					{
						Name: "lossless", Priority: 3, Paused: true, PausedTime: 401 * units.Millisecond, PauseFramesRx: 402, ResumeFramesRx: 403, Stormed: 404, PausedCount: 440, PauseIgnored: 441,
						Lossless: true, Pausing: true, PausingTime: 405 * units.Millisecond, PauseFramesTx: 406, ResumeFramesTx: 407, PausingCount: 442, NoHeadroom: 443,
						PauseCauses: []status.PauseCause{{Port: "s1:3", Time: 408 * units.Millisecond}}, IngressBytes: 409, IngressMax: 410, Xoff: 411, Headroom: 412, HeadroomMax: 413,
						CreditSpent: &status.CreditSpent{Buffer: 414, Available: 415, Waits: 416, Updates: 417},
						CreditGiven: &status.CreditGiven{Buffer: 418, Held: 419, HeldMax: 420, Updates: 421, Lost: 422, Surplus: 423},
					},
				},
			},
			{Name: "s1:3", Node: "s1", Kind: "switch", Link: &status.Link{State: links.Down}},
			{Name: "s1:4", Node: "s1", Kind: "switch", Gauges: []gauges.Value{
				{Name: "mark_probability", Unit: gauges.Share, Value: 0.25}, {Name: "fair_rate", Unit: gauges.BitsPerSecond, Value: 8e9}, {Name: "delay", Unit: gauges.Seconds, Value: 7e-6},
			}},
			{Name: "h2:eth0", Node: "h2", Kind: "host", Edge: edgeStatus()},
		},
		Switches: []status.Switch{{Name: "s1", Entries: 901, Limit: 902, Learned: 903, Moved: 904, Aged: 905, Flushed: 906, Full: 907, Unknown: 908}},
		NICs:     []status.NIC{nic()},
	}
}

// edgeStatus returns a status with all numbers different, and two flows of one name.
func edgeStatus() *status.Edge {
	shown := func(from float64) []gauges.Value {
		return []gauges.Value{
			{Name: "stage", Value: from}, {Name: "target_rate", Unit: gauges.BitsPerSecond, Value: 8 * (from + 1)}, {Name: "waiting", Unit: gauges.Bytes, Value: from + 2},
			{Name: "delay", Unit: gauges.Seconds, Value: from + 3}, {Name: "alpha", Unit: gauges.Share, Value: 0.5}, {Name: "limited", Unit: gauges.YesNo, Value: 1},
		}
	}
	from, to := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
	flow := status.EdgeFlow{From: from, To: to, Protocol: "tcp", SrcPort: 5201, DstPort: 40000, Rate: 8 * units.Mbps,
		QueuePackets: 811, QueueBytes: 812, TxPackets: 813, TxBytes: 814, Dropped: 815, Gauges: append(shown(820), gauges.Value{Name: "rate", Unit: gauges.BitsPerSecond, Value: 1})}
	return &status.Edge{
		Service: "limit", QueuePackets: 801, QueueBytes: 802, Gauges: shown(803), FlowsLeftOut: 808,
		Flows: []status.EdgeFlow{flow, {Flow: "slow", From: from, To: to, TxPackets: 831}, {Flow: "slow", TxPackets: 832}},
	}
}

// nic returns a NIC with all numbers different.
func nic() status.NIC {
	n := status.NIC{Name: "h2:eth0", Node: "h2", Limited: 501, CQs: 502, MRs: 503}
	for i := range n.States {
		n.States[i] = 510 + i
	}
	n.Flows = []status.FlowGauge{
		{Name: "rate", Unit: gauges.BitsPerSecond, Flows: 3, Min: 8e9, Mean: 16e9, Max: 32e9}, {Name: "window", Unit: gauges.Bytes, Flows: 3, Min: 701, Mean: 702, Max: 703},
		{Name: "alpha", Unit: gauges.Share, Flows: 2, Min: 0.25, Mean: 0.5, Max: 0.75}, {Name: "rtt", Unit: gauges.Seconds, Flows: 3, Min: 1e-6, Mean: 2e-6, Max: 3e-6},
		{Name: "stage", Flows: 3, Min: 704, Mean: 705, Max: 706},
	}
	for i := range nicemu.CounterInfos() {
		n.Counters = append(n.Counters, uint64(600+i))
	}
	return n
}

// scrape returns the scrape of a sample, without HELP and TYPE, and without the
// reasons for which nothing was dropped.
func scrape(t *testing.T, s *report.Sample) string {
	t.Helper()
	r := httptest.NewRecorder()
	Handler(func() (*report.Sample, error) { return s, nil }).ServeHTTP(r, httptest.NewRequest("GET", Path, nil))
	if r.Code != http.StatusOK {
		t.Fatalf("%d: %s", r.Code, r.Body)
	}
	var b strings.Builder
	for line := range strings.Lines(r.Body.String()) {
		if never := strings.HasPrefix(line, "weft_lab_dropped_packets_total") && strings.HasSuffix(line, " 0\n"); !never && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

var update = flag.Bool("update", false, "rewrite the file that a scrape is compared with")

// Every number of a sample is in the right metric, in base units.
func TestScrape_HasEveryNumberOfASample(t *testing.T) {
	const file = "testdata/scrape.txt"
	if *update {
		if err := os.WriteFile(file, []byte(scrape(t, sample())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(scrape(t, sample()), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The gauges of congestion points, edge services and their flows in a
// lab are in its metrics, and flows beyond the first are counted.
func TestScrape_HasTheGaugesOfALab(t *testing.T) {
	p, err := resolve.Parse("lab.yaml", []byte(`
name: lab
duration: 20ms
topology:
  kinds: {host: {attach: none}, switch: {queue: {limit: 500KB, mark: {qcn: {cp_qsp: 10KB}}}}}
  generate: {star: {hosts: 20, rate: 100Mbps, delay: 1us}}
  nodes: {h1: {edge: {limit: {cc: qcn}}}, h3: {edge: {limit: {rate: 8Mbps}}}}
workload:
  - {cbr: {name: fast, from: [h1, h4], to: h2, rate: 90Mbps, size: 1000B}}
  - {cbr: {from: h3, to: "h*", rate: 10Mbps, size: 100B}}
`))
	if err != nil {
		t.Fatal(err)
	}
	f := fabric.New(p)
	if err := f.Run(context.Background(), 20*units.Millisecond); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, &report.Sample{Lab: "lab", Ports: f.Status(), NICs: f.NICs()})
	value := func(name, labels string) float64 {
		for line := range strings.Lines(text) {
			if rest, is := strings.CutPrefix(line, name+"{"+labels+"} "); is {
				v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				if err != nil {
					t.Fatal(line)
				}
				return v
			}
		}
		t.Fatalf("no %s{%s} in\n%s", name, labels, text)
		return 0
	}
	if v := value("weft_point_value", `class="",gauge="messages",lab="lab",node="s1",port="s1:h2"`); v < 1 {
		t.Errorf("the point has sent %v messages", v)
	}
	h1 := `lab="lab",node="h1",port="h1:eth0"`
	if v := value("weft_edge_value", `gauge="messages",`+h1+`,service="limit"`); v < 1 {
		t.Errorf("the service has heard %v messages", v)
	}
	if v := value("weft_edge_flow_bytes_per_second", `flow="fast-h1-h2",gauge="rate",`+h1); v <= 0 || v >= 100e6/8 {
		t.Errorf("the flow may send %v bytes per second", v)
	}
	value("weft_edge_flow_value", `flow="fast-h1-h2",gauge="feedback",`+h1)
	if v := value("weft_edge_flow_queue_bytes", `flow="fast-h1-h2",`+h1); v == 0 || v != value("weft_edge_queue_bytes", h1+`,service="limit"`) {
		t.Errorf("%v bytes wait", v)
	}
	h3 := `lab="lab",node="h3",port="h3:eth0"`
	if v := value("weft_edge_flows_left_out", h3+`,service="limit"`); v != 19-status.MaxEdgeFlows {
		t.Errorf("%v flows are left out", v)
	}
	if n := strings.Count(text, `weft_edge_flow_transmit_packets_total{flow="h3-`); n != status.MaxEdgeFlows {
		t.Errorf("%d flows of h3", n)
	}
}

// A rate sees the first drop of the lab.
func TestScrape_HasEveryReasonFromTheBeginning(t *testing.T) {
	if n := testutil.CollectAndCount(New(&report.Sample{Lab: "new"}), "weft_lab_dropped_packets_total"); n != len(reasons) || n == 0 {
		t.Errorf("%d of %d reasons", n, len(reasons))
	}
}

// The names follow Prometheus's rules, and the collected metrics are
// those described.
func TestMetrics_FollowPrometheusRules(t *testing.T) {
	problems, err := testutil.CollectAndLint(New(sample()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	pedantic := prometheus.NewPedanticRegistry()
	pedantic.MustRegister(New(sample()))
	if _, err := pedantic.Gather(); err != nil {
		t.Error(err)
	}
}

// names returns the names of all metrics.
func names(t *testing.T) (list []string) {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() { New(nil).Describe(descs); close(descs) }()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descs {
		list = append(list, name.FindStringSubmatch(d.String())[1])
	}
	return list
}

// Every described metric can occur in a sample.
func TestMetrics_AreAllCollected(t *testing.T) {
	text := scrape(t, sample())
	for _, n := range names(t) {
		if !strings.Contains(text, "\n"+n+"{") && !strings.HasPrefix(text, n+"{") {
			t.Errorf("%s is described, but not collected", n)
		}
	}
}

// Docs/metrics.md names every metric and no other.
func TestMetrics_AreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := names(t)
	found := regexp.MustCompile(`weft_[a-z0-9_]+`).FindAllString(string(text), -1)
	for _, n := range all {
		if !slices.Contains(found, n) {
			t.Errorf("docs/metrics.md does not name %s", n)
		}
	}
	for _, n := range found {
		if !slices.Contains(all, n) {
			t.Errorf("docs/metrics.md names %s, which there is not", n)
		}
	}
}

// counterRow returns the row of a counter of NICs in docs/metrics.md.
func counterRow(c nicemu.CounterInfo) string {
	name := map[string]string{"port_xmit_data": "port_xmit_data_bytes", "port_rcv_data": "port_rcv_data_bytes", "received_payload": "received_payload_bytes"}[c.Name]
	if name == "" {
		name = c.Name
	}
	return fmt.Sprintf("| `%s` | `weft_nic_%s_total` | %s | %s |", c.Name, name, c.Meaning, c.Origin)
}

// Docs/metrics.md describes every counter of a NIC as
// the NIC does.
func TestNICCounters_AreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range nicemu.CounterInfos() {
		if row := counterRow(c); !strings.Contains(string(text), row+"\n") {
			t.Errorf("docs/metrics.md lacks the row\n%s", row)
		}
	}
}

// A lab that is ending has no metrics, and says why.
func TestHandler_SaysThatTheLabHasEnded(t *testing.T) {
	r := httptest.NewRecorder()
	Handler(func() (*report.Sample, error) { return nil, errors.New("the lab has stopped") }).ServeHTTP(r, httptest.NewRequest("GET", Path, nil))
	if body, _ := io.ReadAll(r.Body); r.Code != http.StatusServiceUnavailable || !strings.Contains(string(body), "the lab has stopped") {
		t.Errorf("%d: %s", r.Code, body)
	}
}

// Scrapes in quick succession share a sample. Time is virtual.
func TestHandler_SharesASampleAmongScrapers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		h := Handler(func() (*report.Sample, error) { taken++; return sample(), nil })
		for want := 1; want <= 2; want++ {
			for range 5 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", Path, nil))
			}
			if taken != want {
				t.Errorf("%d samples were taken, want %d", taken, want)
			}
			time.Sleep(freshness)
		}
	})
}

// BenchmarkSnapshot measures how long a scrape stops the engine of a lab with
// 1024 ports, without the lateness.
func BenchmarkSnapshot(b *testing.B) {
	p, err := resolve.Parse("bench.yaml", []byte("topology: {generate: {leaf-spine: {spines: 8, leaves: 32, hosts-per-leaf: 8, rate: 10Gbps, delay: 1us}}}"))
	if err != nil {
		b.Fatal(err)
	}
	f, err := fabric.NewSharded(p, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s := report.Sample{Accounts: f.Accounts(), Ports: f.Status()}
		if len(s.Ports) != 1024 {
			b.Fatal(len(s.Ports))
		}
	}
}

// BenchmarkScrape measures the cost of a scrape of a thousand ports without the
// engine; it does not stop the engine.
func BenchmarkScrape(b *testing.B) {
	s := sample()
	one := s.Ports[0]
	s.Ports = nil
	for i := range 1000 {
		one.Name = fmt.Sprintf("s%d:%d", i/32, i%32)
		s.Ports = append(s.Ports, one)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRecorder()
		Handler(func() (*report.Sample, error) { return s, nil }).ServeHTTP(r, httptest.NewRequest("GET", Path, nil))
	}
}
