package recording

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/observe/series"
)

// edgeLab has flows that come, go and are dropped at limiters with small tables,
// in addition to limiters with a rate control and those of a NIC.
const edgeLab = `
duration: 6ms
topology:
  kinds:
    host: {attach: none, queue: {limit: 20KB}}
    switch: {queue: {limit: 200KB, mark: {qcn: {cp_qsp: 4KB, cp_sample_base: 15KB}}}}
  generate: {dumbbell: {left: 3, right: 3, rate: 200Mbps, delay: 2us, bottleneck: {rate: 100Mbps}}}
  nodes:
    h1: {queue: {limit: 6KB}, edge: {limit: {rate: 60Mbps, flows: 2, age: 20us}}}
    h2: {queue: {limit: 6KB}, edge: {limit: {rate: 60Mbps, flows: 2, age: 20us}}}
    h3: {edge: {limit: {cc: qcn}}, nic: roce}
    h6: {nic: roce}
workload:
  - {on-off: {from: "h[12]", to: "h[4-6]", rate: 90Mbps, size: 500B, on: 100us, off: 200us, phases: exponential}}
  - {cbr: {name: slow, from: h3, to: h4, rate: 150Mbps, size: 1000B}}
  - {write: {name: w, from: h3, to: h6, size: 100KB}}
`

// TestEdgeFlowSeries_AddsUpToWhatServicesSent: the rows of flows of edge services depend
// neither on workers nor on which clock takes them, and change nothing. They add up to what
// the services sent and dropped, though flows are forgotten between two samples. The queue
// pairs have rows beside them.
func TestEdgeFlowSeries_AddsUpToWhatServicesSent(t *testing.T) {
	plain := build(t, edgeLab, 0)
	runTo(t, plain, 6*ms)
	first := ""
	for _, workers := range []int{1, 2, 4} {
		f := build(t, edgeLab, workers)
		text := edgeRows(t, f, FlowSeries{Every: 100 * us})
		if f.Trace() != plain.Trace() {
			t.Errorf("%d workers: the trace is %x, without a series %x", workers, f.Trace(), plain.Trace())
		}
		if first == "" {
			first = text
		} else if text != first {
			t.Errorf("%d workers make other rows than one", workers)
		}
	}
	f := build(t, edgeLab, 0)
	if edgeRows(t, f, FlowSeries{Every: 100 * us, Wall: true}) != first {
		t.Error("timers make another series")
	}
	sent, dropped, again := map[string]float64{}, map[string]float64{}, map[string]int{}
	pairs := 0
	for _, line := range strings.Split(strings.TrimSpace(first), "\n")[1:] {
		var r struct {
			sent, dropped float64
		}
		c := strings.Split(line, ",")
		if c[3] != "" {
			pairs++
			continue
		}
		if _, err := fmt.Sscan(c[15], &r.sent); err != nil {
			t.Fatal(line)
		}
		if _, err := fmt.Sscan(c[17], &r.dropped); err != nil {
			t.Fatal(line)
		}
		sent[c[2]] += r.sent
		dropped[c[2]] += r.dropped
		again[c[0]+c[2]+c[5]]++
	}
	twice := 0
	for _, n := range again {
		twice = max(twice, n)
	}
	if pairs < 10 || twice < 2 {
		t.Errorf("%d rows of queue pairs; of a flow that was forgotten and came again %d at one instant", pairs, twice)
	}
	lost := 0.0
	for _, h := range []string{"h1", "h2", "h3"} {
		s := statusOf(f, h)
		out := float64(s.TxBytes)
		if h == "h3" {
			// The NIC's packets do not pass the service.
			out = 0
			flows, _ := f.EdgeFlowsOf(h)
			for _, x := range flows {
				out += float64(x.TxBytes)
			}
		}
		g := gauges(s.Edge.Gauges)
		if sent[s.Name] != out || out == 0 || dropped[s.Name] != g["dropped"] || h != "h3" && g["forgotten_flows"] == 0 {
			t.Errorf("%s: rows say %v bytes and %v drops, want %v and %+v", h, sent[s.Name], dropped[s.Name], out, g)
		}
		lost += g["dropped"]
	}
	if lost == 0 {
		t.Error("nothing was dropped")
	}
}

// edgeRows records flows until the end of the lab, and returns the text.
func edgeRows(t *testing.T, f *fabric.Fabric, s FlowSeries) string {
	t.Helper()
	if err := s.Check(f.Plan); s.Wall == false && err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := RecordFlows(f, s, &out)
	runTo(t, f, f.Plan.Duration)
	if sum, err := r.Stop(); err != nil || sum.Overruns > 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	return out.String()
}

// TestEdgeFlowSeries_HasTheGaugesOfTheStatus: a row has the rate, the bytes waiting, and the
// gauges of the flow's rate control at that instant, as in the flow's status.
func TestEdgeFlowSeries_HasTheGaugesOfTheStatus(t *testing.T) {
	f, looked := build(t, edgeLab, 0), 0
	rows, quantities, _ := recordFlows(t, f, FlowSeries{Flows: []string{"slow"}, Every: 100 * us}, advanceTo(t, f, 6*ms))
	other := build(t, edgeLab, 0)
	for _, r := range rows {
		if r.NIC != "h3:eth0" || r.Name != "slow" || r.QPN != 0 {
			t.Fatalf("%+v", r)
		}
		runTo(t, other, r.At)
		flows, err := other.EdgeFlowsOf("h3")
		if err != nil || len(flows) != 1 {
			t.Fatalf("%+v, %v", flows, err)
		}
		want := gauges(flows[0].Gauges)
		want["rate"], want["waiting"] = float64(flows[0].Rate), float64(flows[0].QueueBytes)
		for i, q := range quantities {
			if q.PerInterval {
				continue
			}
			v, is := want[q.Name]
			if q.Name == "rate" && v == 0 {
				is = false
			}
			if got := r.Values[i]; is == math.IsNaN(got) || is && got != v {
				t.Errorf("%v: %s is %v, want %v, %v", r.At, q.Name, got, v, is)
			}
		}
		if want["feedback"] != 0 && want["waiting"] != 0 {
			looked++
		}
	}
	if len(rows) != 60 || looked < 10 {
		t.Errorf("%d rows, %d of them with feedback", len(rows), looked)
	}
}

// TestEdgeFlowSeries_ChoosesByHostInterfaceAndName: patterns choose flows of edge services by
// host, interface and name of a modelled flow.
func TestEdgeFlowSeries_ChoosesByHostInterfaceAndName(t *testing.T) {
	for pattern, want := range map[string]string{"h3": "h3:eth0 slow, h3:eth0 w", "h3:*": "h3:eth0 slow, h3:eth0 w", "sl*": "h3:eth0 slow", "w": "h3:eth0 w", "h2-h5": "h2:eth0 h2-h5"} {
		f := build(t, edgeLab, 0)
		rows, _, _ := recordFlows(t, f, FlowSeries{Flows: []string{pattern}, Every: 500 * us}, advanceTo(t, f, 3*ms))
		var names []string
		for _, r := range rows {
			if name := r.NIC + " " + r.Name + r.Transfer; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if got := sorted(names); got != want {
			t.Errorf("%s chooses %s, want %s", pattern, got, want)
		}
	}
	p := fabrictest.Parse(t, edgeLab)
	if err := (FlowSeries{Flows: []string{"slwo"}, Every: ms}).Check(p); err == nil || !strings.Contains(err.Error(), `did you mean "slow"`) {
		t.Errorf("%v", err)
	}
}

// TestEdgeFlowSeries_CountsFlowsBeyondItsBound: only a bounded number of an interface's flows
// have rows at a time; the others are counted.
func TestEdgeFlowSeries_CountsFlowsBeyondItsBound(t *testing.T) {
	defer func(n int) { maxPassing = n }(maxPassing)
	maxPassing = 5
	f := fabric.New(fabrictest.Parse(t, `
duration: 1ms
topology:
  kinds: {host: {attach: none, edge: {limit: {rate: 10Mbps}}}}
  generate: {star: {hosts: 9, rate: 1Gbps, delay: 1us}}
workload: [{cbr: {from: h1, to: "h[2-9]", rate: 10Mbps, size: 500B}}, {cbr: {from: h2, to: h1, rate: 10Mbps, size: 500B}}]
`))
	var out bytes.Buffer
	r := RecordFlows(f, FlowSeries{Every: 100 * us}, &out)
	runTo(t, f, ms)
	if _, err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if r.Things != 6 || r.LeftOut != 3 {
		t.Errorf("%d flows have rows, and %d have none", r.Things, r.LeftOut)
	}
	x, err := series.NewFlowReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	if err := x.EachRow(func(r *series.FlowRow) error { seen[r.NIC]++; return nil }); err != nil || seen["h1:eth0"] > 50 || seen["h1:eth0"] < 45 || seen["h2:eth0"] < 9 {
		t.Errorf("%v, %v", seen, err)
	}
	// The same bound holds for a status.
	if s := statusOf(f, "h1").Edge; len(s.Flows) != 8 || s.FlowsLeftOut != 0 {
		t.Errorf("%+v", s)
	}
}

// TestEdgeFlowSampling_DoesNotAllocate: the engine's thread samples known flows without
// leaving work for the garbage collector.
func TestEdgeFlowSampling_DoesNotAllocate(t *testing.T) {
	if fabrictest.Race {
		t.Skip("SKIPPED: the race detector allocates; counted without it")
	}
	f := build(t, edgeLab, 0)
	r := RecordFlows(f, FlowSeries{Every: ms, Wall: true}, new(bytes.Buffer))
	if err := f.Run(context.Background(), 2*ms); err != nil {
		t.Fatal(err)
	}
	p, now := r.samplers[0], 2*ms
	p.Sample(now, true)
	if n := testing.AllocsPerRun(100, func() { now++; p.Sample(now, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, err := r.Stop(); err != nil {
		t.Error(err)
	}
}

// TestEdgeFlowSeries_HasALastRowOfAFlowThatAges: a flow that has aged by the next sample has
// one more row, with what it sent until then, and no more after that, though it is not
// forgotten.
func TestEdgeFlowSeries_HasALastRowOfAFlowThatAges(t *testing.T) {
	f := fabric.New(fabrictest.Parse(t, `
duration: 1ms
topology:
  kinds: {host: {attach: none}}
  generate: {star: {hosts: 2, rate: 1Gbps, delay: 1us}}
  nodes: {h1: {edge: {limit: {rate: 500Mbps, age: 20us}}}}
workload: [{cbr: {name: x, from: h1, to: h2, rate: 200Mbps, size: 100B, for: 250us}}]
`))
	rows, quantities, _ := recordFlows(t, f, FlowSeries{Every: 100 * us}, advanceTo(t, f, ms))
	sent := slices.IndexFunc(quantities, func(q series.FlowQuantity) bool { return q.Name == "sent" })
	sum := 0.0
	for _, r := range rows {
		sum += math.Round(r.Values[sent] * r.Interval.Seconds() / 8)
	}
	if want := float64(statusOf(f, "h1").TxBytes); sum != want || want == 0 || len(rows) != 3 || rows[2].At != 300*us {
		t.Errorf("%d rows say %v bytes, want %v: %+v", len(rows), sum, want, rows)
	}
}

// TestEdgeFlowSeries_GivesPlacesOfForgottenFlowsToOthers: a forgotten flow makes room for
// others when its last row is written.
func TestEdgeFlowSeries_GivesPlacesOfForgottenFlowsToOthers(t *testing.T) {
	defer func(n int) { maxPassing = n }(maxPassing)
	maxPassing = 1
	f := fabric.New(fabrictest.Parse(t, `
duration: 3ms
topology:
  kinds: {host: {attach: none}}
  generate: {star: {hosts: 2, rate: 1Gbps, delay: 1us}}
  nodes: {h1: {edge: {limit: {rate: 500Mbps, age: 20us}}}}
workload:
  - {cbr: {name: first, from: h1, to: h2, rate: 100Mbps, size: 100B, for: 50us}}
  - {cbr: {name: second, from: h1, to: h2, rate: 100Mbps, size: 100B, at: 200us, for: 50us}}
  - {cbr: {name: third, from: h1, to: h2, rate: 100Mbps, size: 100B, at: 1200us, for: 50us}}
`))
	var out bytes.Buffer
	r := RecordFlows(f, FlowSeries{Every: ms}, &out)
	runTo(t, f, 3*ms)
	if _, err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if r.Things != 2 || r.LeftOut != 1 || strings.Count(text, ",first,") != 1 || strings.Contains(text, "second") || strings.Count(text, ",third,") != 1 {
		t.Errorf("%d flows have rows, %d have none:\n%s", r.Things, r.LeftOut, text)
	}
}
