package timely

import (
	"math"
	"slices"
	"testing"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// bottleneck models flows that always have packets to send through one queue, and the
// acknowledgements that come back.
type bottleneck struct {
	line   units.Rate
	delay  units.Time // of a packet and its acknowledgement, without the queue
	packet units.Bytes
	flows  []*loopFlow
	free   units.Time // when all that is queued has left
}

type loopFlow struct {
	rate  *Control
	next  units.Time // the next packet
	burst units.Bytes
	acks  []loopAck // in flight
	sent  units.Bytes
	acked units.Bytes
	rtts  float64 // sum of the measured RTTs
	n     int
}

type loopAck struct{ at, rtt units.Time }

func (b *bottleneck) start(c Config, rate units.Rate, at units.Time) {
	c.InitialRate = rate
	b.flows = append(b.flows, &loopFlow{rate: New(&c, cc.Flow{Line: b.line}), next: at})
}

// run runs until end.
func (b *bottleneck) run(end units.Time) {
	for {
		var f *loopFlow
		at, ack := end, false
		for _, g := range b.flows {
			if len(g.acks) > 0 && g.acks[0].at < at {
				f, at, ack = g, g.acks[0].at, true
			}
			if g.next < at {
				f, at, ack = g, g.next, false
			}
		}
		switch {
		case f == nil:
			return
		case ack:
			a := f.acks[0]
			f.acks = f.acks[1:]
			f.acked += b.packet
			f.rtts, f.n = f.rtts+float64(a.rtt), f.n+1
			f.rate.OnAck(at, &cc.Ack{Acked: f.acked, Sent: f.sent, Newly: b.packet, Packets: 1, RTT: a.rtt})
		default:
			b.send(f, at)
		}
	}
}

// send puts a packet into the queue. Its acknowledgement time is known at once.
func (b *bottleneck) send(f *loopFlow, now units.Time) {
	b.free = max(b.free, now) + b.line.TimeOf(b.packet)
	at := b.free + b.delay
	f.acks = append(f.acks, loopAck{at, at - now})
	f.sent += b.packet
	f.burst += b.packet
	f.next = now + b.line.TimeOf(b.packet)
	if f.burst >= f.rate.config.Burst {
		f.next = now - b.line.TimeOf(f.burst-b.packet) + f.rate.Rate().TimeOf(f.burst)
		f.burst = 0
	}
}

// two runs two flows with given initial rates and returns their shares of the line and
// the mean RTT between two instants.
func two(c Config, first, second units.Rate, late, from, until units.Time) (shares [2]float64, rtt units.Time) {
	b := &bottleneck{line: 10 * units.Gbps, delay: 4 * units.Microsecond, packet: 1000}
	b.start(c, first, 0)
	b.start(c, second, late)
	b.run(from)
	for _, f := range b.flows {
		f.sent, f.acked, f.rtts, f.n = 0, 0, 0, 0
	}
	b.run(until)
	var sum float64
	var n int
	for i, f := range b.flows {
		shares[i] = float64(f.sent) / float64(b.line.BytesIn(until-from))
		sum, n = sum+f.rtts, n+f.n
	}
	return shares, units.Time(sum / float64(n))
}

const ms = units.Millisecond

// starts has the initial conditions of Zhu et al., CoNEXT 2016, Fig. 9: both flows at 5
// Gb/s, one of them 10 ms late, and one at 7 and the other at 3 Gb/s.
var starts = []struct {
	name          string
	first, second units.Rate
	late          units.Time
}{
	{"5 and 5", 5 * units.Gbps, 5 * units.Gbps, 0},
	{"5 and 5, 10 ms late", 5 * units.Gbps, 5 * units.Gbps, 10 * ms},
	{"7 and 3", 7 * units.Gbps, 3 * units.Gbps, 0},
}

// TestTIMELYHasNoFixedPoint: where two flows end depends on where they started (Zhu et
// al., CoNEXT 2016, §4.2 and Fig. 9, with packets paced singly).
func TestTIMELYHasNoFixedPoint(t *testing.T) {
	c := Preset("paper", 10*units.Gbps)
	c.Burst, c.ScaleUpdates, c.MaxDecrease = 0, false, 1
	var ends []float64
	for _, s := range starts {
		shares, rtt := two(c, s.first, s.second, s.late, 200*ms, 300*ms)
		t.Logf("%s: shares %.3f, RTT %v", s.name, shares, rtt)
		ends = append(ends, shares[0])
	}
	if slices.Max(ends)-slices.Min(ends) < 0.5 {
		t.Errorf("the first flow ends with %.3f, nearly the same from all starts", ends)
	}
}

// TestBurstsBringTIMELYTogether: bursts of 16 KB add enough noise that shares are about
// equal from any start, at the cost of some utilisation (Fig. 10a there).
func TestBurstsBringTIMELYTogether(t *testing.T) {
	for _, s := range starts {
		shares, rtt := two(Preset("paper", 10*units.Gbps), s.first, s.second, s.late, 200*ms, 300*ms)
		t.Logf("%s: shares %.3f, RTT %v", s.name, shares, rtt)
		if math.Abs(shares[0]-shares[1]) > 0.15 || shares[0]+shares[1] < 0.8 {
			t.Errorf("%s: shares are %.3f", s.name, shares)
		}
	}
}

// TestPatchedTIMELYConverges: from any start two flows converge to equal rates, and the
// RTT to the fixed point of Algorithm 2: delta/2 = rate * beta/2 * (RTT - T_low)/T_low
// with rate = C/N, which is RTT = T_low (1 + N delta / (beta C)) (Eq. 31 has it as a
// queue).
func TestPatchedTIMELYConverges(t *testing.T) {
	c := Preset("patched", 10*units.Gbps)
	rests := float64(c.TLow) * (1 + 2*float64(c.Delta)/(float64(c.Beta)*10e9))
	for _, s := range starts {
		shares, rtt := two(c, s.first, s.second, s.late, 200*ms, 300*ms)
		t.Logf("%s: shares %.4f, RTT %v, %v expected", s.name, shares, rtt, units.Time(rests))
		if math.Abs(shares[0]-0.5) > 0.01 || math.Abs(shares[1]-0.5) > 0.01 {
			t.Errorf("%s: shares are %.4f", s.name, shares)
		}
		if math.Abs(float64(rtt)/rests-1) > 0.02 {
			t.Errorf("%s: the RTT is %v, want %v", s.name, rtt, units.Time(rests))
		}
	}
}
