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
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// accurateKinds returns hosts and switches with ACCurate in the paper's network (§III):
// packets of 256 bytes, PFC, FRPs above the data. Hosts have the contention points of their
// switches' classes.
func accurateKinds(cc, mark string) string {
	return fmt.Sprintf(`  kinds:
    host: {attach: none, nic: {cc: {accurate: {%s}}, dscp: 26, mtu: 256}}
    switch:
      buffer: {size: 20MB}
      classes:
        frp: {dscp: 48, priority: 6, mark: {accurate: {%s}}}
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 2.5KB, xon: 2KB}}
        default: {weight: 1}
    link: {delay: 100ns}
`, cc, mark)
}

// shortPayload is the payload's share of the wire, for packets with 256 bytes.
var shortPayload = 256 / float64(packet.OnWire(314))

// TestACCurate_IsMaxMinFairOnTrees: on random trees, with random flows that always send, each
// flow gets 1-α of its water-filling rate. Flows are messages without a pause: linger keeps
// them from starting over with each. A flow with most of its NIC's link has up to 4% less,
// because it loses the time beyond one of its packets for which it waits for the NIC's other
// flows.
func TestACCurate_IsMaxMinFairOnTrees(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	examples := 20
	if testing.Short() {
		examples = 5
	}
	worst := 0.0
	for seed := range examples {
		x := rapid.Custom(func(t *rapid.T) tree { return drawTree(t, []int{10, 40}) }).Example(seed)
		f := fabric.New(fabrictest.Parse(t, x.lab(accurateKinds("linger: 100us", "floor: true"))))
		runTo(t, f, 1*ms)
		got := goodputs(t, f, 3*ms)
		for i, want := range x.maxMin() {
			ratio := got[fmt.Sprintf("f%d", i)] / shortPayload / want / 0.95
			worst = max(worst, math.Abs(ratio-1))
			if math.Abs(ratio-1) > 0.04 {
				t.Errorf("example %d: flow %d from h%d to h%d has %.3f of its %.2f Gb/s\n%+v", seed, i, x.flows[i][0], x.flows[i][1], ratio, want*0.95, x)
			}
		}
		if a := f.Accounts(); !a.Balanced() || a.Dropped > 0 {
			t.Errorf("example %d: %+v", seed, a)
		}
	}
	t.Logf("the worst flow is %.1f%% off", 100*worst)
}

// TestACCurate_FRPsCrossRouters: FRPs cross routers, over both versions of IP; a run ends,
// because ended flows have no timers; and workers do not matter.
func TestACCurate_FRPsCrossRouters(t *testing.T) {
	for _, ip := range []string{"4", "6"} {
		var trace uint64
		for _, workers := range []int{1, 2, 4} {
			p := fabrictest.Parse(t, "topology:\n"+accurateKinds("", "")+`  nodes: {s1: {address: auto}, s2: {address: auto}}
  generate: {dumbbell: {left: 4, right: 11, rate: 10Gbps, delay: 100ns, bottleneck: {rate: 10Gbps}}}
workload:
  - {incast: {to: h5, from: [h1, h2, h3, h4], size: 300KB, ip: `+ip+`}}
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

// TestACCurateEdge_SharesOrdinaryFlowsFairly: an edge service limits modelled flows and
// answers the FRPs of others.
func TestACCurateEdge_SharesOrdinaryFlowsFairly(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f := fabric.New(fabrictest.Parse(t, `
duration: 1s
topology:
  kinds:
    host: {attach: none, edge: {limit: {cc: {accurate: {preset: programs}}}}}
    switch:
      classes: {frp: {dscp: 48, priority: 6, mark: accurate}, default: {weight: 1, limit: 1MB}}
  generate: {star: {hosts: 4, rate: 10Gbps, delay: 100ns}}
workload:
  - {cbr: {name: fast, from: h1, to: h4, rate: 9Gbps, size: 1400B}}
  - {cbr: {name: too, from: h1, to: h4, rate: 9Gbps, size: 1400B}}
  - {cbr: {name: third, from: h2, to: h4, rate: 9Gbps, size: 1400B}}
  - {cbr: {name: other, from: h2, to: h3, rate: 9Gbps, size: 1400B}}
`))
	runTo(t, f, 2*ms)
	before := map[string]uint64{}
	for _, r := range f.Results() {
		before[r.Flow] = r.Received
	}
	runTo(t, f, 6*ms)
	onWire := float64(packet.OnWire(1442))
	want := map[string]float64{"fast": 9.5 / 3, "too": 9.5 / 3, "third": 9.5 / 3, "other": 9.5 * 2 / 3}
	for _, r := range f.Results() {
		got := float64(r.Received-before[r.Flow]) * onWire * 8e-9 / (4 * ms).Seconds()
		if math.Abs(got/want[r.Flow]-1) > 0.02 {
			t.Errorf("%s has %.3f Gb/s on the wire, want %.3f", r.Flow, got, want[r.Flow])
		}
	}
}

// TestACCurateFRPs_AreReadByTshark: a capture shows a flow-init before the first packet of a
// flow, one FRP in each period, their responses, and a flow-stop.
func TestACCurateFRPs_AreReadByTshark(t *testing.T) {
	f := fabric.New(fabrictest.Parse(t, "duration: 1s\ntopology:\n"+accurateKinds("", "")+`  generate: {star: {hosts: 2, rate: 10Gbps, delay: 100ns}}
workload:
  - {write: {from: h1, to: h2, size: 100KB}}
`))
	h1, _ := f.Plan.Node("h1")
	frames := captured(t, f, []fabric.Watched{{Node: h1, In: true, Out: true}}, func() { runTo(t, f, 1*ms) })
	var out []string
	last, frps, data := -1, 0, 0
	for _, row := range oracle.Tshark(t, dissectorFile(t), frames, "accurate.kind", "accurate.response", "accurate.period", "udp.length", "_ws.col.Info") {
		if row[0] == "" {
			data++
			if frps == 0 {
				t.Errorf("packet %d left before the flow-init", data)
			}
			continue
		}
		frps++
		if row[3] != "28" || !strings.Contains(row[4], "CR ") {
			t.Errorf("%q", row)
		}
		if row[1] == "1" || row[1] == "True" {
			continue
		}
		out = append(out, row[0])
		var period int
		if _, err := fmt.Sscan(row[2], &period); err != nil || row[0] == "0" && period != last+1 {
			t.Errorf("period %s after %d", row[2], last)
		}
		last = period
	}
	if n := len(out); n < 5 || out[0] != "1" || out[n-1] != "2" || frps != 2*n-1 || data == 0 {
		t.Errorf("kinds %v, %d FRPs in all, and %d other packets", out, frps, data)
	}
}

// TestACCurate_SendsNoFRPsForSmallFlows: a flow below small sends no FRP; a larger one
// announces itself before its first packet, because its NIC knows how much is posted.
func TestACCurate_SendsNoFRPsForSmallFlows(t *testing.T) {
	for size, want := range map[string]bool{"3900B": false, "4KB": true} {
		f := fabric.New(fabrictest.Parse(t, "duration: 1s\ntopology:\n"+accurateKinds("small: 4KB", "")+`  generate: {star: {hosts: 2, rate: 10Gbps, delay: 100ns}}
workload:
  - {write: {from: h1, to: h2, size: `+size+`}}
`))
		h1, _ := f.Plan.Node("h1")
		frps, data := 0, 0
		f.Port(h1, 0).SetObserver(0, observer(func(p *packet.Packet, dir port.Direction, _ packet.Fate) {
			switch {
			case p.Message != nil:
				frps++
				if data > 0 && frps == 1 {
					t.Errorf("%s: %d packets left before the flow-init", size, data)
				}
			case dir == port.Out:
				data++
			}
		}))
		runTo(t, f, 1*ms)
		if frps > 0 != want || data == 0 {
			t.Errorf("%s: %d FRPs and responses, and %d packets", size, frps, data)
		}
	}
}

// TestACCurate_ForgetsAVanishedHostInTwoPeriods: a host that vanishes is forgotten within two
// periods, and the others get its share; when it is back and sends again it gets its share.
func TestACCurate_ForgetsAVanishedHostInTwoPeriods(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f := fabric.New(fabrictest.Parse(t, "duration: 1s\ntopology:\n"+accurateKinds("", "")+`  generate: {star: {hosts: 4, rate: 10Gbps, delay: 100ns}}
workload:
  - {incast: {to: h4, from: [h1, h2, h3], size: 10MB, count: unlimited}}
events:
  - {at: 500us, link: "h1:eth0", set: {state: down}}
  - {at: 1000us, link: "h1:eth0", set: {state: up}}
`))
	runTo(t, f, 400*us)
	rates := func() (list []float64) {
		for i, h := range []string{"h1", "h2", "h3"} {
			d, err := f.DeviceOf(h)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range d.QPs() {
				if x, _ := q.Flow(f.Now(), nil); x.HasSent {
					list = append(list, float64(x.Rate)/1e9)
				}
			}
			if len(list) != i+1 {
				t.Fatalf("%s has no flow: %v", h, list)
			}
		}
		return list
	}
	near := func(at units.Time, want ...float64) {
		t.Helper()
		for i, r := range rates() {
			if want[i] > 0 && math.Abs(r/want[i]-1) > 0.01 {
				t.Errorf("at %v: rates %.3f, want %.3f", at, rates(), want)
				return
			}
		}
	}
	near(f.Now(), 9.5/3, 9.5/3, 9.5/3)
	runTo(t, f, 600*us)
	near(f.Now(), 0, 4.75, 4.75)
	runTo(t, f, 1000*us+600*us)
	near(f.Now(), 9.5/3, 9.5/3, 9.5/3)
}
