package pattern

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
	"pgregory.net/rapid"
)

func TestPermutationIsBackToBack(t *testing.T) {
	h := hosts(9)
	n := run(t, must(Permutation{Stream: stream, Hosts: h, Sizes: named("websearch"), Flows: 5, Start: 3 * units.Microsecond}), 1, 1e6)
	to := map[int]int{}
	free := map[int]units.Time{}
	for _, e := range n.log {
		f := e.flow
		switch e.kind {
		case 0:
			if was, ok := to[f.From]; ok && was != f.To {
				t.Errorf("host %d sends to %d and %d", f.From, was, f.To)
			}
			to[f.From] = f.To
			if want := max(free[f.From], 3*units.Microsecond); f.At != want || e.at != want {
				t.Errorf("a flow at %v, want %v", f.At, want)
			}
		case 2:
			free[f.From] = e.at
		}
	}
	if len(n.started) != 9*5 || len(to) != 9 {
		t.Errorf("%d flows of %d hosts", len(n.started), len(to))
	}
	for host, maxFlows := range n.maxUnder {
		if maxFlows != 1 {
			t.Errorf("host %d has %d flows under way", host, maxFlows)
		}
	}
}

// TestPermutationStops: without a limit on flows it continues until Stop.
func TestPermutationStops(t *testing.T) {
	n := run(t, must(Permutation{Hosts: hosts(2), Sizes: sizes.Fixed(1000), Stop: units.Millisecond}), 1, 1e6)
	if len(n.started) < 50 {
		t.Errorf("%d flows", len(n.started))
	}
	for _, f := range n.started {
		if f.At >= units.Millisecond {
			t.Errorf("a flow at %v", f.At)
		}
	}
}

// TestAllToAllHasEveryPairOnce, with as many flows under way as the window allows.
func TestAllToAllHasEveryPairOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := hosts(rapid.IntRange(2, 12).Draw(rt, "hosts"))
		window := rapid.IntRange(0, 13).Draw(rt, "window")
		n := run(t, must(AllToAll{Stream: stream, Hosts: h, Sizes: sizes.Fixed(10_000), Window: window}), rapid.Uint64().Draw(rt, "seed"), 1e6)
		pairs := map[[2]int]int{}
		for _, f := range n.started {
			pairs[[2]int{f.From, f.To}]++
			if f.Group != 1 {
				rt.Fatalf("group %d", f.Group)
			}
		}
		if len(pairs) != len(h)*(len(h)-1) || len(n.started) != len(pairs) || len(n.done) != len(pairs) {
			rt.Fatalf("%d flows between %d pairs of %d hosts", len(n.started), len(pairs), len(h))
		}
		want := min(window, len(h)-1)
		if window == 0 {
			want = len(h) - 1
		}
		for host, maxFlows := range n.maxUnder {
			if maxFlows != want {
				rt.Fatalf("host %d has %d flows under way, want %d", host, maxFlows, want)
			}
		}
	})
}

// TestAllToAllSpreads: the first flows of all hosts go to different hosts.
func TestAllToAllSpreads(t *testing.T) {
	first := map[int]bool{}
	for f := range PlayFlows(must(AllToAll{Hosts: hosts(7), Sizes: sizes.Fixed(1), Window: 1}), 1) {
		first[f.To] = true
	}
	if len(first) != 7 {
		t.Errorf("the first flows go to %d of 7 hosts", len(first))
	}
}

func TestOnOffByCount(t *testing.T) {
	n := run(t, must(OnOff{Stream: stream, Hosts: hosts(3), Sizes: sizes.Fixed(1000), Burst: 4, Off: units.Millisecond, Stop: units.Second}), 1, 1e6)
	silence, bursts := 0.0, 0
	type state struct {
		flows, to int
		group     uint64
		free      units.Time
	}
	hosts := map[int]*state{}
	for _, e := range n.log {
		f := e.flow
		s := hosts[f.From]
		if s == nil {
			s = &state{}
			hosts[f.From] = s
		}
		switch {
		case e.kind == 2:
			s.free = e.at
		case e.kind == 0 && s.flows%4 == 0:
			if f.Group == s.group {
				t.Fatal("two bursts are one group")
			}
			silence += (e.at - s.free).Seconds()
			bursts++
			s.to, s.group = f.To, f.Group
			s.flows++
		case e.kind == 0:
			if e.at != s.free || f.To != s.to || f.Group != s.group {
				t.Fatalf("flow %d of a burst at %v, not %v, to %d, not %d, group %d, not %d", s.flows, e.at, s.free, f.To, s.to, f.Group, s.group)
			}
			s.flows++
		}
	}
	if bursts < 1000 {
		t.Fatalf("%d bursts", bursts)
	}
	if mean := silence / float64(bursts); mean < 0.95e-3 || mean > 1.05e-3 {
		t.Errorf("silence of %v s between bursts", mean)
	}
}

// TestOnOffByTime: bursts of constant length contain as many flows as fit, and hosts are
// not in step.
func TestOnOffByTime(t *testing.T) {
	n := run(t, must(OnOff{Stream: stream, Hosts: hosts(3), Sizes: sizes.Fixed(1000), On: 200 * units.Microsecond, Off: units.Millisecond,
		Phases: ConstantLaw(), Stop: 100 * units.Millisecond}), 1, 1e6)
	first := map[uint64]units.Time{}
	last := map[uint64]units.Time{}
	for _, f := range n.started {
		if _, ok := first[f.Group]; !ok {
			first[f.Group] = f.At
		}
		last[f.Group] = f.At
	}
	for g, at := range first {
		if on := last[g] - at; on >= 200*units.Microsecond || on < 150*units.Microsecond {
			t.Errorf("flows of a burst start over %v", on)
		}
	}
	starts := map[units.Time]bool{}
	for _, h := range hosts(3) {
		starts[first[uint64(h)<<32|1]] = true
	}
	if len(starts) != 3 || len(first) < 200 {
		t.Errorf("%d first times, %d bursts", len(starts), len(first))
	}
}
