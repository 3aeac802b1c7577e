package port

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// step is one event at a port: a packet to send, new settings of its link, or an observer
// that is added or removed.
type step struct {
	gap      units.Time
	size     units.Bytes
	link     *links.Settings
	watch    bool
	snapshot bool
}

func drawSteps(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := step{gap: units.Time(rapid.SampledFrom([]int64{0, 0, 0, 672_000, 1_000, 12_304_000, 5_000_000}).Draw(t, "gap"))}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			set := links.Settings{
				Rate:  units.Rate(rapid.SampledFrom([]int64{0, 1e9, 1e10, 1e8}).Draw(t, "rate")),
				Delay: units.Time(rapid.SampledFrom([]int64{0, 1_000_000, 40_000_000}).Draw(t, "delay")),
				MTU:   units.Bytes(rapid.SampledFrom([]int{576, 1500}).Draw(t, "mtu")),
				Up:    rapid.IntRange(0, 3).Draw(t, "up") > 0,
				Loss:  units.Fraction(rapid.SampledFrom([]float64{0, 0, 0.3}).Draw(t, "loss")),
			}
			s.link = &set
		case 1:
			s.watch = true
		case 2:
			s.snapshot = true
		default:
			s.size = units.Bytes(rapid.SampledFrom([]int{60, 590, 1514}).Draw(t, "size"))
		}
		return s
	}), 1, 60).Draw(t, "steps")
}

// drawClock draws a clock, which may be exact.
func drawClock(t *rapid.T) *nodeclock.Clock {
	return nodeclock.New(nodeclock.Settings{
		Error: nodeclock.PPB(rapid.Int64Range(-50_000, 50_000).Draw(t, "error")) * nodeclock.PPB(rapid.IntRange(0, 1).Draw(t, "wrong")),
		Jitter: nodeclock.Jitter{
			Time: units.Time(rapid.SampledFrom([]int64{0, 0, 100_000, 20_000_000}).Draw(t, "jitter")), Packet: rapid.Bool().Draw(t, "packet"),
		},
	}, 1, "a:1")
}

// play runs steps on a port. Ports do not compute departures ahead of time while they are
// observed.
func play(steps []step, mark, watched, obey bool) (seen []any) {
	return playClocked(steps, nil, mark, watched, obey)
}

func playClocked(steps []step, c *nodeclock.Clock, mark, watched, obey bool) (seen []any) {
	r := newRig(units.Gbps, 6000)
	r.from.SetClock(c)
	r.from.ConnectLink(r.link)
	if mark {
		r.from.SetPoint(&r.engine, func(func(units.Time)) congestion.Point {
			return congestion.New(congestion.Choice{Settings: &congestion.RED{KMin: 100, KMax: 4000, PMax: 0.8}}, congestion.Env{Rand: sim.NewRand(1, "mark")})
		})
	}
	look := watched
	set := func() {
		if look {
			r.from.SetObserver(r.engine.Now(), r)
		} else {
			r.from.SetObserver(r.engine.Now(), nil)
		}
	}
	set()
	now := units.Time(0)
	for _, s := range steps {
		now += s.gap
		r.until(now)
		switch {
		case s.link != nil:
			r.from.SetLink(now, *s.link)
		case s.watch:
			if obey {
				look = !look
				set()
			}
		case s.snapshot:
			packets, bytes := r.from.QueueLength(now)
			c := r.from.Counters(now)
			seen = append(seen, packets, bytes, r.from.InFlight(now), c.TxPackets, c.TxBytes, c.Drops, c.Marked, c.MaxQueue, c.MeanQueue(Counters{}), r.from.Trace(now))
		default:
			r.send(now, s.size)
		}
	}
	r.finish()
	n := r.from.Counters(r.engine.Now())
	return append(seen, r.arrived, n.TxPackets, n.TxBytes, n.Drops, n.Marked, n.MaxQueue, r.from.Trace(units.Never-1), r.link.Counters(), r.pool.LivePackets())
}

// TestAheadIsTheSame: whether departures are computed ahead of time or each is an event, and
// whenever the port changes between the two, all observable results are the same.
func TestAheadIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps, mark, clock := drawSteps(t), rapid.Bool().Draw(t, "mark"), drawClock(t)
		queued := playClocked(steps, clock, mark, true, false)
		if diff := cmp.Diff(queued, playClocked(steps, clock, mark, false, false)); diff != "" {
			t.Fatalf("ahead of time (-one by one +ahead):\n%s", diff)
		}
		if diff := cmp.Diff(queued, playClocked(steps, clock, mark, false, true)); diff != "" {
			t.Fatalf("looked at from time to time (-one by one +changing):\n%s", diff)
		}
	})
}

// TestAheadOnAnInstantLink: a link that goes down and comes up without a rate while a packet
// leaves, so that nothing is in flight, holds the next one until its port is free.
func TestAheadOnAnInstantLink(t *testing.T) {
	down, instant := links.Settings{MTU: 1500}, links.Settings{MTU: 1500, Up: true}
	steps := []step{{size: 1514}, {link: &down}, {link: &instant}, {size: 60}, {snapshot: true}, {gap: 1_000, size: 60}}
	if diff := cmp.Diff(play(steps, false, true, false), play(steps, false, false, false)); diff != "" {
		t.Errorf("ahead of time (-one by one +ahead):\n%s", diff)
	}
}

// TestOneEventAHop: a plain port needs no event for a departure.
func TestOneEventAHop(t *testing.T) {
	r := newRig(units.Gbps, units.MB)
	r.from.SetObserver(0, nil)
	for range 100 {
		r.send(0, 1514)
	}
	r.finish()
	if n := r.engine.FiredEvents(); n != 100 || len(r.arrived) != 100 {
		t.Errorf("%d events for %d arrivals, want one each", n, len(r.arrived))
	}
}
