package congestion

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestPITranscript compares the probability with values computed by hand: the input is the
// queue length, the output the probability after each period. An eighth and a quarter are
// exact.
func TestPITranscript(t *testing.T) {
	c := &pi{PI: PI{Target: 10 * units.KB, Alpha: 0.125, Beta: 0.25, Every: units.Millisecond}}
	now := units.Time(0)
	for i, step := range []struct {
		queue units.Bytes
		want  float64
	}{
		{0, 0},                     // -0.125: not below 0
		{10_000, 0.25},             // at the target, grown by a target
		{10_000, 0.25},             // it stays there
		{20_000, 0.25 + 0.375},     // a target too long, grown by a target
		{20_000, 0.25 + 0.5},       // still too long
		{15_000, 0.75 - 0.0625},    // half a target too long, shrunk by half
		{0, 0.6875 - 0.125 - .375}, // empty
		{100_000, 1},               // not above 1
		{100_000, 1},
		{90_000, 1},
		{10_000, 0}, // -2
	} {
		c.catchUp(now, step.queue)
		if c.catchUp(now+units.Millisecond-1, 0); c.p != step.want {
			t.Fatalf("period %d, queue %v: probability %v, want %v", i, step.queue, c.p, step.want)
		}
		now += units.Millisecond
	}
}

// TestPIIsHollots compares with the difference equation of Hollot et al., INFOCOM 2001,
// (10), with its coefficients at 160 Hz for 200 packets of 500 bytes.
func TestPIIsHollots(t *testing.T) {
	const a, b, target = 1.822e-5, 1.816e-5, 200
	rapid.Check(t, func(t *rapid.T) {
		c := &pi{PI: PI{Target: target * 500, Alpha: (a - b) * target, Beta: b * target, Every: units.Second / 160}}
		p, before := 0.0, 0
		for range rapid.IntRange(1, 200).Draw(t, "periods") {
			queue := rapid.IntRange(0, 5000).Draw(t, "queue")
			c.catchUp(c.next, units.Bytes(queue*500))
			p = min(max(p+a*float64(queue-target)-b*float64(before-target), 0), 1)
			before = queue
			if math.Abs(c.p-p) > 1e-12 {
				t.Fatalf("probability %v, want %v", c.p, p)
			}
		}
	})
}

// TestPIMakesUpForPeriods: however rarely packets arrive and leave, the probability is
// what a timer would have computed from the queue's lengths.
func TestPIMakesUpForPeriods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := PI{Target: 50 * units.KB, Alpha: 0.002, Beta: 0.02, Every: 100 * units.Microsecond}
		c := New(Choice{Settings: &config}, Env{Rand: sim.NewRand(1, "mark")}).(*pi)
		timed := &pi{PI: config}
		var now, tick units.Time
		var length units.Bytes
		var queue packet.List
		for range rapid.IntRange(1, 200).Draw(t, "packets") {
			now += rapid.OneOf(rapid.Just[units.Time](0), rapid.Just(config.Every), rapid.Map(rapid.IntRange(0, 2000), func(us int) units.Time {
				return units.Time(us) * units.Microsecond
			})).Draw(t, "gap")
			for ; tick <= now; tick += config.Every {
				timed.advanceProbability(length, 1)
			}
			p := ip(wire.ECT0)
			if out := queue.Pop(); out != nil && rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
				length -= out.Size
				c.OnDequeue(now, Queue{Bytes: length}, out)
			} else {
				if out != nil {
					queue.Push(out)
				}
				p.Size = units.Bytes(rapid.IntRange(60, 40000).Draw(t, "size"))
				c.OnEnqueue(now, Queue{Bytes: length}, p)
				queue.Push(p)
				length += p.Size
			}
			if math.Abs(c.p-timed.p) > 1e-9 {
				t.Fatalf("at %v the probability is %v, a timer's %v", now, c.p, timed.p)
			}
		}
		if next := c.OnTimer(0, Queue{}); next != units.Never {
			t.Errorf("it asks for a timer at %v", next)
		}
	})
}

// TestPIShowsTheInstant: the gauge includes the periods since the last packet, and reading
// it changes nothing.
func TestPIShowsTheInstant(t *testing.T) {
	config := PI{Target: 10 * units.KB, Alpha: 0.125, Beta: 0.25, Every: units.Millisecond}
	c, timed := &pi{PI: config, rand: sim.NewRand(1, "mark")}, &pi{PI: config}
	const length = 12 * units.KB
	c.OnEnqueue(0, Queue{Bytes: length}, ip(wire.ECT0))
	for now := units.Time(0); now < 20*units.Millisecond; now += units.Millisecond {
		timed.advanceProbability(length, 1)
		for range 2 {
			if got := c.AppendGauges(now, Queue{Bytes: length}, nil); len(got) != 1 || math.Abs(got[0]-timed.p) > 1e-12 {
				t.Fatalf("at %v the gauge is %v, a timer's %v", now, got, timed.p)
			}
		}
	}
	if timed.p < 0.5 || c.next != config.Every {
		t.Errorf("the probability is %v; looking has moved the next period to %v", timed.p, c.next)
	}
}

// TestPIShare measures the share of packets marked and dropped, to four and a
// half standard deviations.
func TestPIShare(t *testing.T) {
	const packets = 50_000
	for _, treat := range []NotECT{PassNotECT, DropNotECT} {
		for ecn, want := range map[uint8]packet.Fate{wire.ECT0: packet.Marked, wire.CE: packet.Marked, wire.NotECT: packet.EarlyDrop} {
			for _, p := range []float64{0, 0.1, 0.9, 1} {
				point := New(Choice{Settings: &PI{Target: units.KB, Alpha: units.Fraction(p), Every: units.Second, NotECT: treat}}, Env{Rand: sim.NewRand(1, "mark")})
				count := map[packet.Fate]float64{}
				for range packets {
					pkt := ip(ecn)
					count[point.OnEnqueue(0, Queue{Bytes: 2 * units.KB}, pkt)]++
					if fate := point.OnDequeue(0, Queue{}, pkt); fate != packet.Fine {
						t.Fatalf("%v when sent", fate)
					}
				}
				if ecn == wire.NotECT && treat == PassNotECT {
					p = 0
				}
				if spread := 4.5 * math.Sqrt(packets*p*(1-p)); math.Abs(count[want]-packets*p) > spread || count[packet.Fine]+count[want] != packets {
					t.Errorf("ECN %d, not-ect %v: %v, want %.0f ± %.0f of %v", ecn, treat, count, packets*p, spread, want)
				}
			}
		}
	}
}

// TestPIHoldsItsTarget closes the loop with the windows of DCTCP, in steps of a round
// trip: the queue reaches the target with the defaults, and again after the link has
// become slower and faster.
func TestPIHoldsItsTarget(t *testing.T) {
	const flows, frame, target = 10, 1514, 45 * units.KB
	config := *defaultPI()
	config.Target = target
	c := &pi{PI: config}
	window := 2.0                                  // packets
	for _, pipe := range []float64{100, 50, 200} { // packets in a round trip
		var minQueue, maxQueue units.Bytes = math.MaxInt64, 0
		for trip := range 4000 {
			queue := units.Bytes(max(flows*window-pipe, 0) * frame)
			c.catchUp(c.next, queue)
			window = max(window+1-window*c.p/2, 1)
			if trip > 3000 {
				minQueue, maxQueue = min(minQueue, queue), max(maxQueue, queue)
			}
		}
		if minQueue < target*8/10 || maxQueue > target*12/10 {
			t.Errorf("with %v packets in a round trip the queue is between %v and %v, want %v", pipe, minQueue, maxQueue, target)
		}
	}
}

// TestPIHearsOfRemovals: a packet that a watchdog or another packet removes from the queue
// counts until then.
func TestPIHearsOfRemovals(t *testing.T) {
	config := PI{Target: 10 * units.KB, Alpha: 0.1, Beta: 0.1, Every: ms}
	point := New(Choice{Settings: &config}, Env{Rand: sim.NewRand(1, "mark")}).(*pi)
	p := ip(wire.ECT0)
	p.Size = 20 * units.KB
	point.OnEnqueue(0, Queue{}, p)
	point.OnRemoved(3*ms, Queue{}, p, packet.Watchdog)
	if got, want := point.p, 0.1*3+0.1*2; math.Abs(got-want) > 1e-9 {
		t.Errorf("after 3 periods with a queue of twice the target the probability is %v, want %v", got, want)
	}
}
