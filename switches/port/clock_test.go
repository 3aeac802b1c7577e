package port

import (
	"testing"

	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
)

// clockedRig is a rig whose sending port has a clock.
func clockedRig(rate units.Rate, s nodeclock.Settings) *rig {
	r := newRig(rate, units.GB)
	r.from.SetClock(nodeclock.New(s, 1, "a:1"))
	r.from.ConnectLink(r.link)
	return r
}

// TestClock_FastPortSendsMore: with a clock that is 100 ppm fast, packets take 1/1.0001 of their
// time, on average to a picosecond in 10,000 packets: also where that is less than a
// picosecond for each.
func TestClock_FastPortSendsMore(t *testing.T) {
	for _, rate := range []units.Rate{500 * units.Mbps, 100 * units.Gbps, 800 * units.Gbps} {
		for _, ppm := range []nodeclock.PPB{100, -100, 7} {
			const n = 10_000
			r := clockedRig(rate, nodeclock.Settings{Error: ppm * nodeclock.PPM})
			for range n {
				r.send(0, 1000)
			}
			r.finish()
			last := r.arrived[len(r.arrived)-1]
			want := float64(n) * float64(rate.TimeOf(1024)) / (1 + float64(ppm)/1e6)
			if got := float64(last.At); last.ID != n-1 || got < want-5 || got > want+5 {
				t.Errorf("%v with %d ppm: packet %d ends at %.0f ps, want %.0f", rate, ppm, last.ID, got, want)
			}
		}
	}
}

// TestClock_JitterDelaysWithinItsBound: each packet arrives up to the bound later than without
// jitter, not all alike, in order, and a port that always has packets keeps its rate.
func TestClock_JitterDelaysWithinItsBound(t *testing.T) {
	const n = 5000
	for _, j := range []nodeclock.Jitter{{Time: 100 * units.Nanosecond}, {Time: 10 * units.Microsecond}, {Packet: true}} {
		exact, real := clockedRig(units.Gbps, nodeclock.Settings{}), clockedRig(units.Gbps, nodeclock.Settings{Jitter: j})
		for i := range units.Time(n) {
			at := i / 1000 * 50 * units.Millisecond // also to an idle port
			exact.send(at, 1000)
			real.send(at, 1000)
		}
		exact.finish()
		real.finish()
		bound, late, early := j.On(units.Gbps, 9038), 0, 0
		for i := range n {
			a, b := exact.arrived[i], real.arrived[i]
			if a.ID != b.ID || b.At < a.At || b.At > a.At+bound {
				t.Fatalf("jitter %v: packet %d arrives at %v, without jitter packet %d at %v", j, b.ID, b.At, a.ID, a.At)
			}
			if b.At-a.At > bound/2 {
				late++
			} else {
				early++
			}
		}
		if late < n/10 || early < n/10 {
			t.Errorf("jitter %v: %d packets are late by more than half of the bound, %d by less", j, late, early)
		}
	}
}

// TestClock_NothingOnAnUnlimitedLink: a link without a rate serialises nothing, and carries
// packets at once. Its port gets jitter with a rate.
func TestClock_NothingOnAnUnlimitedLink(t *testing.T) {
	r := clockedRig(0, nodeclock.Settings{Error: 100 * nodeclock.PPM, Jitter: nodeclock.Jitter{Time: units.Microsecond}})
	r.from.SetObserver(0, nil)
	r.send(5, 1000)
	if len(r.arrived) != 1 || r.arrived[0].At != 5 {
		t.Errorf("arrivals at an unlimited link: %v", r.arrived)
	}
	r.rate(units.Gbps)
	r.send(10, 1000)
	r.finish()
	if at := r.arrived[1].At; at == 10+units.Gbps.TimeOf(1024) || at > 10+units.Gbps.TimeOf(1024)+units.Microsecond {
		t.Errorf("with a rate the packet arrives at %v", at)
	}
}
