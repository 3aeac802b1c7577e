package recording

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
)

// pointsLab has QCN at a plain port, CoDel and PI at classes of others, and edge services
// that hear of QCN; all of them are active.
const pointsLab = `
duration: 6ms
topology:
  kinds: {host: {attach: none}, link: {rate: 1Gbps, delay: 1us}}
  nodes:
    s1: {kind: switch, queue: {limit: 200KB, mark: {qcn: {cp_qsp: 20KB}}}}
    s2:
      kind: switch
      buffer: {size: 1MB}
      classes:
        fast: {dscp: 26, priority: 3, weight: 1, mark: {pi: {target: 20KB}}}
        default: {weight: 1, mark: codel}
    h1: {kind: host, edge: {limit: {cc: qcn}}}
    h2: {kind: host, edge: {limit: {cc: qcn}}}
    h3: {kind: host}
    h4: {kind: host, edge: {limit: {rate: 900Mbps}}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["s1:3", "s2:1"]}
    - {endpoints: ["s2:2", "h3:eth0"], rate: 500Mbps}
    - {endpoints: ["s2:3", "h4:eth0"]}
workload:
  - {poisson: {from: [h1, h2], to: h3, rate: 700Mbps, size: 1000B, dscp: 26}}
  - {poisson: {from: h4, to: h3, rate: 100Mbps, size: 1000B}}
`

// TestSeries_HasTheGaugesOfTheStatus: every gauge of the points and edge services of a series'
// queues has a column, with the values of the status at that instant and only there. They do
// not depend on workers, on stops, or on which clock takes the samples, and the run is the
// same as without a series.
func TestSeries_HasTheGaugesOfTheStatus(t *testing.T) {
	plain := build(t, pointsLab, 0)
	runTo(t, plain, 6*ms)
	var want string
	for _, workers := range []int{1, 2, 4} {
		f := build(t, pointsLab, workers)
		text := record(t, f, Series{Every: 100 * us}, 1234*us, 6*ms)
		if want == "" {
			want = text
		} else if text != want {
			t.Errorf("%d workers make another series", workers)
		}
		if f.Trace() != plain.Trace() {
			t.Errorf("%d workers: the trace is %x, without a series %x", workers, f.Trace(), plain.Trace())
		}
	}
	if f := build(t, pointsLab, 0); record(t, f, Series{Every: 100 * us, Wall: true}, 6*ms) != want {
		t.Error("timers make another series")
	}
	head, _, _ := strings.Cut(want, "\n")
	_, head, _ = strings.Cut(head, ",paused_s,")
	if head != "point_dropping_yes,point_count,point_mark_probability_share,point_fb,point_messages,"+
		"edge_flows,edge_waiting_flows,edge_waiting_bytes,edge_forgotten_flows,edge_table_full,edge_messages,edge_messages_ignored,edge_dropped" {
		t.Errorf("the columns are %s", head)
	}
	checkGauges(t, want)
}

// checkGauges compares the rows of pointsLab with the statuses of another run.
func checkGauges(t *testing.T, text string) {
	t.Helper()
	x, err := series.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	f := build(t, pointsLab, 0)
	moved := map[string]int{} // number of non-zero values of a column
	if err := x.EachRow(func(r *series.Row) error {
		runTo(t, f, r.At)
		node, port, err := f.Plan.Endpoint(r.Port)
		if err != nil {
			return err
		}
		want := map[string]float64{}
		add := func(of series.Owner, list []gauge.Value) {
			for _, g := range list {
				want[series.Gauge{Of: of, Gauge: gauge.Gauge{Name: g.Name, Unit: g.Unit}}.ColumnName()] = g.Value
			}
		}
		s := f.PortStatus(node, port)
		if r.Class == "" {
			add(series.OfPoint, s.Gauges)
			if s.Edge != nil {
				add(series.OfEdge, s.Edge.Gauges)
			}
		}
		for _, c := range s.Classes {
			if c.Name == r.Class || len(s.Classes) == 1 {
				add(series.OfPoint, c.Gauges)
			}
		}
		for i, g := range x.Gauges() {
			v, is := want[g.ColumnName()]
			if got := r.Gauges[i]; is == math.IsNaN(got) || is && got != v {
				t.Fatalf("%v, %s %s: %s is %v, want %v, %v", r.At, r.Port, r.Class, g.ColumnName(), got, v, is)
			}
			if v != 0 {
				moved[g.ColumnName()+" "+r.Port+" "+r.Class]++
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"point_fb s1:3 ", "point_messages s1:3 ", "point_mark_probability_share s2:2 fast", "edge_messages h1:eth0 ", "edge_waiting_bytes h2:eth0 ", "edge_flows h4:eth0 ",
	} {
		if moved[name] < 10 {
			t.Errorf("%s is not 0 in %d rows", name, moved[name])
		}
	}
}

// TestSeries_HasGaugesOnlyOfItsQueues: a port with one class has its point's gauges in the
// port's row, and a series has columns only for its queues, in an order that does not depend
// on which those are.
func TestSeries_HasGaugesOnlyOfItsQueues(t *testing.T) {
	p := fabrictest.Parse(t, `
duration: 1ms
topology:
  kinds: {host: {attach: none}, switch: {buffer: {size: 1MB}, classes: {default: {mark: {pi: {target: 2KB}}}}}}
  generate: {star: {hosts: 3, rate: 1Gbps, delay: 1us}}
workload: [{poisson: {from: [h2, h3], to: h1, rate: 800Mbps, size: 1000B}}]
`)
	maxShare := 0.0
	for _, r := range rowsOf(t, record(t, fabric.New(p), Series{Every: 100 * us}, ms)) {
		if len(r.Gauges) != 1 || math.IsNaN(r.Gauges[0]) != (r.Port[0] == 'h') {
			t.Fatalf("%+v", r)
		}
		if r.Port == "s1:h1" {
			maxShare = max(maxShare, r.Gauges[0])
		}
	}
	if maxShare == 0 {
		t.Error("the probability is always 0")
	}
	f := build(t, pointsLab, 0)
	for pattern, want := range map[string]string{"s1:*": "point_fb point_messages", "h3:*": "", "s[12]:*": "point_dropping_yes point_count point_mark_probability_share point_fb point_messages"} {
		ports, err := f.Plan.MatchPorts([]string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		all, _ := queueGauges(f, ports)
		for _, g := range all {
			got = append(got, g.ColumnName())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has %v, want %s", pattern, got, want)
		}
	}
}

// TestGaugeSampling_DoesNotAllocate: gauges do not leave work for the garbage collector
// either.
func TestGaugeSampling_DoesNotAllocate(t *testing.T) {
	if fabrictest.Race {
		t.Skip("SKIPPED: the race detector allocates; counted without it")
	}
	f := build(t, pointsLab, 0)
	ports, err := f.Plan.MatchPorts([]string{"*:*"})
	if err != nil {
		t.Fatal(err)
	}
	r := RecordQueues(f, Series{Ports: ports, Every: ms, Wall: true}, io.Discard)
	if err := f.Run(context.Background(), 2*ms); err != nil {
		t.Fatal(err)
	}
	p, now := r.samplers[0], 3*ms
	p.Sample(now, true)
	if n := testing.AllocsPerRun(100, func() { now += us; p.Sample(now, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, err := r.Stop(); err != nil {
		t.Error(err)
	}
}
