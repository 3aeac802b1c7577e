package systems

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// roccKinds returns hosts and switches with RoCC, for changes of the settings of either.
func roccKinds(cc, mark string) string {
	return fmt.Sprintf(`  kinds:
    host: {attach: none, nic: {cc: {rocc: {%s}}, dscp: 26, mtu: 1024}}
    switch:
      buffer: {size: 200MB}
      classes:
        feedback: {dscp: 48, priority: 6}
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 500KB, xon: 490KB}, mark: {rocc: {%s}}}
        default: {weight: 1}
    link: {delay: 1.5us}
`, cc, mark)
}

// payload is the payload's share of the wire, for packets with 1024 bytes.
var payload = 1024 / float64(packet.OnWire(1082))

// TestRoCC_IsMaxMinFairOnTrees: on random trees, with random flows that always send, each flow
// gets its water-filling rate. The table is recent:
// TestRoCC_LoneFlowNeedsATableThatRemembersIt says why.
func TestRoCC_IsMaxMinFairOnTrees(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("-short")
	}
	worst := 0.0
	for seed := range 25 {
		x := rapid.Custom(func(t *rapid.T) tree { return drawTree(t, []int{10, 40, 100}) }).Example(seed)
		f := fabric.New(fabrictest.Parse(t, x.lab(roccKinds("", "table: recent"))))
		runTo(t, f, 25*ms)
		got := goodputs(t, f, 40*ms)
		for i, want := range x.maxMin() {
			ratio := got[fmt.Sprintf("f%d", i)] / payload / want
			worst = max(worst, math.Abs(ratio-1))
			if math.Abs(ratio-1) > 0.05 {
				t.Errorf("example %d: flow %d from h%d to h%d has %.3f of its %.2f Gb/s\n%+v", seed, i, x.flows[i][0], x.flows[i][1], ratio, want, x)
			}
		}
		if a := f.Accounts(); !a.Balanced() {
			t.Errorf("example %d: %+v", seed, a)
		}
	}
	t.Logf("the worst flow is %.1f%% off", 100*worst)
}

// TestRoCC_LoneFlowNeedsATableThatRemembersIt: a flow that is alone at a bottleneck gets F as
// long as the table contains it. The table recent always contains it. The table queued forgets
// it when the queue is empty: the flow doubles beyond the bottleneck's rate, F falls by the
// queue's growth, and so on. It loses a seventh.
func TestRoCC_LoneFlowNeedsATableThatRemembersIt(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	x := tree{parent: []int{-1}, up: []int{0}, home: []int{0, 0}, host: []int{100, 10}, flows: [][2]int{{0, 1}}}
	for table, want := range map[string][2]float64{"recent": {0.98, 1.001}, "bounded": {0.98, 1.001}, "queued": {0.8, 0.92}} {
		f := fabric.New(fabrictest.Parse(t, x.lab(roccKinds("", "table: "+table))))
		runTo(t, f, 25*ms)
		got := goodputs(t, f, 40*ms)["f0"] / payload / 10
		t.Logf("%s: %.3f of the bottleneck", table, got)
		if got < want[0] || got > want[1] {
			t.Errorf("%s: %.3f of the bottleneck, want %v", table, got, want)
		}
	}
}

// TestRoCC_KeepsTheQueueAtItsReference closes the loop on one bottleneck: the queue has its
// reference length, flows have equal rates, the link is full, and nothing is lost, whether the
// switch or the host computes the rate; workers do not matter. Captures show the messages.
func TestRoCC_KeepsTheQueueAtItsReference(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	lab := func(mark string) string {
		return "duration: 1s\ntopology:\n" + roccKinds("", mark) + `  generate: {star: {hosts: 5, rate: 40Gbps, delay: 1.5us}}
workload:
  - {incast: {to: h5, from: [h1, h2, h3, h4], size: 1MB, count: unlimited}}
`
	}
	for _, mark := range []string{"compute: switch", "compute: host", "compute: registry", "table: recent"} {
		t.Run(mark, func(t *testing.T) {
			f := fabric.New(fabrictest.Parse(t, lab(mark)))
			s1, _ := f.Plan.Node("s1")
			h1, _ := f.Plan.Node("h1")
			var messages [][]byte
			for _, b := range captured(t, f, []fabric.Watched{{Node: h1, In: true}}, func() { runTo(t, f, 10*ms) }) {
				if b[wire.EthernetHeader+9] == wire.ProtoICMP && len(messages) < 20 {
					messages = append(messages, b)
				}
			}
			var sum units.Bytes
			const samples = 400
			from, before := f.Now(), f.Transfers()
			for i := range samples {
				runTo(t, f, 10*ms+units.Time(i+1)*20*us)
				_, bytes := f.Port(s1, 4).QueueLength(f.Now())
				sum += bytes
			}
			var rates []float64
			total := 0.0
			for i, r := range f.Transfers() {
				rates = append(rates, 8e-9*float64(r.Received-before[i].Received)/(f.Now()-from).Seconds())
				total += rates[i]
			}
			queue, used := float64(sum/samples), total/payload/40
			t.Logf("queue %.0f bytes, %.4f of the link, Jain's index %.5f", queue, used, fairness.Jain(rates...))
			if math.Abs(queue/150e3-1) > 0.05 || used < 0.98 || fairness.Jain(rates...) < 0.999 {
				t.Errorf("queue %.0f bytes, want 150000; %.4f of the link; Jain's index %.5f", queue, used, fairness.Jain(rates...))
			}
			if a := f.Accounts(); !a.Balanced() || a.Dropped > 0 {
				t.Errorf("%+v", a)
			}
			for _, row := range oracle.Tshark(t, dissectorFile(t), messages, "icmp.type", "rocc.flow.src", "rocc.flow.dst", "rocc.flow.qp", "_ws.col.Info") {
				if row[0] != "253" || row[1] != "10.0.0.1" || row[2] != "10.0.0.5" || row[3] == "" || !strings.HasPrefix(row[4], "RoCC: ") {
					t.Errorf("%q", row)
				}
			}
		})
	}
}

// TestRoCC_FeedbackCrossesRouters: feedback crosses routers, over both versions of IP; the run
// ends, because a point with an empty queue rests; and workers do not matter.
func TestRoCC_FeedbackCrossesRouters(t *testing.T) {
	for _, ip := range []string{"4", "6"} {
		var trace uint64
		for _, workers := range []int{1, 2, 4} {
			p := fabrictest.Parse(t, "topology:\n"+roccKinds("", "")+`  nodes: {s1: {address: auto}, s2: {address: auto}}
  generate: {dumbbell: {left: 4, right: 11, rate: 10Gbps, delay: 1.5us, bottleneck: {rate: 10Gbps}}}
workload:
  - {incast: {to: h5, from: [h1, h2, h3, h4], size: 3MB, ip: `+ip+`}}
`)
			f, _, _ := carry(t, p, workers)
			for _, r := range f.Transfers() {
				if r.Completed != 1 || r.Failed > 0 {
					t.Errorf("IPv%s: %+v", ip, r)
				}
			}
			handled := uint64(0)
			for _, n := range f.NICs() {
				handled += n.Counters.Of("rp_messages_handled")
			}
			if handled < 100 {
				t.Errorf("IPv%s: %d messages were handled", ip, handled)
			}
			if workers == 1 {
				trace = f.Trace()
			} else if f.Trace() != trace {
				t.Errorf("IPv%s: %d workers have another trace", ip, workers)
			}
		}
	}
}

// TestRoCCEdge_SharesOrdinaryFlowsFairly: an edge service limits modelled flows, of one host
// or several, and a slow flow keeps its rate.
func TestRoCCEdge_SharesOrdinaryFlowsFairly(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f := fabric.New(fabrictest.Parse(t, `
duration: 1s
topology:
  kinds:
    host: {attach: none, edge: {limit: {cc: rocc}}}
    switch:
      classes: {feedback: {dscp: 48, priority: 6}, default: {weight: 1, limit: 1MB, mark: {rocc: {table: recent}}}}
  generate: {star: {hosts: 4, rate: 10Gbps, delay: 1.5us}}
workload:
  - {cbr: {name: fast, from: h1, to: h4, rate: 9Gbps, size: 1400B}}
  - {cbr: {name: too, from: h1, to: h4, rate: 9Gbps, size: 1400B}}
  - {poisson: {name: third, from: h2, to: h4, rate: 9Gbps, size: 1400B}}
  - {cbr: {name: slow, from: h3, to: h4, rate: 1Gbps, size: 1400B}}
`))
	runTo(t, f, 15*ms)
	before := map[string]uint64{}
	for _, r := range f.Results() {
		before[r.Flow] = r.Received
	}
	runTo(t, f, 25*ms)
	wire := float64(packet.OnWire(1442))
	slow := 1e9 * wire / 1400
	want := map[string]float64{"fast": (10e9 - slow) / 3, "too": (10e9 - slow) / 3, "third": (10e9 - slow) / 3, "slow": slow}
	for _, r := range f.Results() {
		got := float64(r.Received-before[r.Flow]) * wire * 8 / (10 * ms).Seconds()
		if math.Abs(got/want[r.Flow]-1) > 0.03 {
			t.Errorf("%s has %.2f Gb/s on the wire, want %.2f", r.Flow, got/1e9, want[r.Flow]/1e9)
		}
	}
}
