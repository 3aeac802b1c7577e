package fabric

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
)

// twoSenders is a lab in which two hosts send to a third at the rates of their links, which are
// all equal.
func twoSenders(clock, host, rest string) string {
	return fmt.Sprintf(`clock: %s
topology:
  kinds: {host: {attach: none%s}, link: {rate: 500Mbps, delay: 20us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
%s`, clock, host, rest)
}

// TestClocks_SendersShareLosses: two senders of one rate into one drop-tail port, one 3 us behind the
// other. With exact clocks that one loses everything: its packets always come just after the
// other's, which get the room that each departure makes.
//
// With real clocks each packet is up to 20 us late, more than the 16.6 us that it takes, so that
// the packets of either sender may be the first after a departure, whatever the phase. In
// 117,000 departures the senders' shares differ by less than 1% with even odds; the odds depend
// on the phase, which drifts, and 2% more are for the rest of a turn.
func TestClocks_SendersShareLosses(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	lost := func(clock string, seed uint64) [2]float64 {
		f := run(t, parse(t, fmt.Sprintf("seed: %d\n", seed)+twoSenders(clock, "", `
duration: 2s
workload:
  - {cbr: {from: h2, to: h1, rate: 500Mbps, size: 1000B}}
  - {cbr: {from: h3, to: h1, rate: 500Mbps, size: 1000B, at: 3us}}
`)))
		var share [2]float64
		for i, r := range f.Results() {
			share[i] = float64(r.LossShare)
		}
		return share
	}
	if x := lost("exact", 1); x[0] > 0.1 || x[1] < 0.9 {
		t.Errorf("with exact clocks the senders lose %.3f", x)
	}
	for seed := range uint64(10) {
		if x := lost("real", seed); max(x[0], x[1])-min(x[0], x[1]) > 0.03 {
			t.Errorf("seed %d: with real clocks the senders lose %.3f", seed, x)
		}
	}
}

// TestClocks_QueuePairsSurvive: two queue pairs, each with a window of 3 MB, which takes 50 ms. With
// exact clocks one of them loses the packet that it sends again after each timeout of 67 ms, as the
// other keeps the queue full, and ends with an error. With real clocks neither does.
func TestClocks_QueuePairsSurvive(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	failed := func(clock string, seed uint64) (n uint64) {
		f := run(t, parse(t, fmt.Sprintf("seed: %d\n", seed)+twoSenders(clock, ", nic: {timeout: 67ms}", `
duration: 2s
workload:
  - {write: {from: h2, to: h1, size: 65536B, count: unlimited, depth: 48, for: 2s}}
  - {write: {from: h3, to: h1, size: 65536B, count: unlimited, depth: 48, for: 2s, at: 300ms}}
`)))
		for _, r := range f.Transfers() {
			n += r.Failed
		}
		return n
	}
	if failed("exact", 1) == 0 {
		t.Error("with exact clocks no queue pair fails")
	}
	for seed := range uint64(20) {
		if n := failed("real", seed); n > 0 {
			t.Errorf("seed %d: with real clocks %d messages fail", seed, n)
		}
	}
}

// TestClocks_DetermineRates: what a host sends in a second depends on its clock, whatever limits
// it: the serialisation of its port, a flow's rate, a NIC's rate limit.
func TestClocks_DetermineRates(t *testing.T) {
	const ppm = 500
	for name, c := range map[string]struct{ host, workload string }{
		"port":    {"", "{cbr: {from: h2, to: h1, rate: 600Mbps, size: 1000B}}"},
		"flow":    {"", "{cbr: {from: h2, to: h1, rate: 400Mbps, size: 1000B}}"},
		"Poisson": {"", "{poisson: {from: h2, to: h1, rate: 400Mbps, size: 1000B}}"},
		"on-off":  {"", "{on-off: {from: h2, to: h1, rate: 400Mbps, size: 1000B, on: 70us, off: 90us}}"},
		"NIC":     {", nic: {cc: {dcqcn: {}}}", "{write: {from: h2, to: h1, size: 65536B, count: unlimited, depth: 8}}"},
	} {
		sent := func(clock string) float64 {
			f := run(t, parse(t, twoSenders(clock, c.host, "duration: 1s\nworkload:\n  - "+c.workload+"\n")))
			return float64(f.Port(1, 0).Counters(f.Now()).TxBytes)
		}
		ratio := sent(fmt.Sprintf("{ppm: %d}", ppm)) / sent("exact")
		if d := (ratio-1)*1e6 - ppm; d < -100 || d > 100 {
			t.Errorf("%s: a host that is %d ppm fast sends %.6f of what an exact one sends", name, ppm, ratio)
		}
	}
}

// TestClocks_MeasureTimeouts: the timeouts of a NIC last as long as its clock says.
func TestClocks_MeasureTimeouts(t *testing.T) {
	gaveUp := func(clock string) units.Time {
		f := run(t, parse(t, twoSenders(clock, ", nic: {timeout: 67ms}", `
events: [{at: 1ns, link: "h1:eth0", set: {loss: 100%}}]
workload: [{write: {from: h2, to: h1, size: 1000B}}]
`)))
		return f.Now()
	}
	exact, slow := gaveUp("exact"), gaveUp("{ppm: -1000}")
	if want := exact + exact/999; slow < want-units.Millisecond/10 || slow > want+units.Millisecond/10 {
		t.Errorf("a queue pair gives up after %v, and with a clock that is 1000 ppm slow after %v, not %v", exact, slow, want)
	}
}

// TestClocks_OfANode: each node has a clock of its own, and jitters of its own at each port.
func TestClocks_OfANode(t *testing.T) {
	p := parse(t, twoSenders("real", "", "seed: 3\n"))
	seen := map[nodeclock.PPB]bool{}
	for i := range p.Nodes {
		seen[p.Nodes[i].Clock.Error] = true
	}
	if len(seen) != len(p.Nodes) {
		t.Errorf("the errors of %d clocks: %v", len(p.Nodes), seen)
	}
	again := parse(t, twoSenders("real", "", "seed: 3\n"))
	for i := range p.Nodes {
		if diff := cmp.Diff(p.Nodes[i].Clock, again.Nodes[i].Clock); diff != "" {
			t.Error(diff)
		}
	}
}
