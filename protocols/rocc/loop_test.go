package rocc

import (
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

const us, ms = units.Microsecond, units.Millisecond

// bottleneck models flows that always send, as a fluid, through one queue with a
// congestion point, and the messages that come back.
type bottleneck struct {
	params    Params
	config    Config
	point     Point
	flows     []*Control
	queue     float64 // bytes, as sent
	next      units.Time
	now       units.Time
	inTransit []delivery
	rand      *rand.Rand
	// disturb returns the delays after which copies of a message to a flow arrive.
	disturb func(flow int) []units.Time
	sent    float64 // through the bottleneck
}

type delivery struct {
	at   units.Time
	flow int
	m    Feedback
}

func newBottleneck(flows int, line units.Rate) *bottleneck {
	b := &bottleneck{params: PaperParams(line), config: Preset("paper", line), rand: rand.New(rand.NewPCG(1, 2)), next: 40 * us}
	b.point = NewPoint(&b.params)
	for range flows {
		b.flows = append(b.flows, New(&b.config, line))
	}
	b.disturb = func(int) []units.Time { return []units.Time{5 * us} }
	return b
}

// run runs until end, in steps of a microsecond.
func (b *bottleneck) run(end units.Time) {
	for ; b.now < end; b.now += us {
		kept := b.inTransit[:0]
		for _, l := range b.inTransit {
			if l.at <= b.now {
				b.flows[l.flow].OnMessage(b.now, &l.m)
			} else {
				kept = append(kept, l)
			}
		}
		b.inTransit = kept
		in := 0.0
		for _, f := range b.flows {
			f.OnTimer(b.now)
			in += float64(f.Rate()) / 8e6
		}
		out := min(b.queue+in, float64(b.params.FMax)/8e6)
		b.queue += in - out
		b.sent += out
		if b.now < b.next {
			continue
		}
		b.next += b.params.Interval
		b.point.UpdateRate(units.Bytes(b.queue))
		for i := range b.flows {
			for _, delay := range b.disturb(i) {
				b.inTransit = append(b.inTransit, delivery{b.now + delay, i, Feedback{CP: CP{Queue: 1}, Rate: b.point.Rate(), DeltaF: b.params.DeltaF}})
			}
		}
	}
}

// measure runs for some time and returns the lowest and the highest rate relative to the
// fair one, the utilisation of the link, and the mean queue.
func (b *bottleneck) measure(d units.Time) (minShare, maxShare, utilisation, queue float64) {
	var sums []float64
	start, sent, steps := b.now, b.sent, 0.0
	sums = make([]float64, len(b.flows))
	for b.now < start+d {
		b.run(b.now + 5*us)
		for i, f := range b.flows {
			sums[i] += float64(f.Rate())
		}
		queue += b.queue
		steps++
	}
	fair := float64(b.params.FMax) / float64(len(b.flows)) * steps
	minShare, maxShare = sums[0]/fair, sums[0]/fair
	for _, s := range sums {
		minShare, maxShare = min(minShare, s/fair), max(maxShare, s/fair)
	}
	return minShare, maxShare, (b.sent - sent) / float64(b.params.FMax.BytesIn(d)), queue / steps / float64(b.params.QRef)
}

// TestNoLastingHarm: messages are lost, late, duplicated or forged. When that ends, rates
// are fair and the queue is at its reference within 10 ms. Meanwhile forged low rates cost
// what the flows have not regained by doubling, and forged high rates fill the queue.
func TestNoLastingHarm(t *testing.T) {
	usual := 5 * us
	for _, c := range []struct {
		what               string
		disturb            func(b *bottleneck, flow int) []units.Time
		used               float64 // of the link meanwhile, at least
		minShare, maxShare float64 // rates of a flow meanwhile, relative to the fair rate
	}{
		{"3% are lost", func(b *bottleneck, _ int) []units.Time { return b.lose(0.03, usual) }, 0.97, 0.9, 1.2},
		{"30% are lost", func(b *bottleneck, _ int) []units.Time { return b.lose(0.3, usual) }, 0.9, 0.7, 1.5},
		{"all are lost", func(*bottleneck, int) []units.Time { return nil }, 0.999, 5, 11},
		{"one flow hears nothing", func(_ *bottleneck, flow int) []units.Time {
			if flow == 0 {
				return nil
			}
			return []units.Time{usual}
		}, 0.99, 0, 11},
		{"late by up to 100us", func(b *bottleneck, _ int) []units.Time {
			return []units.Time{units.Time(b.rand.Int64N(int64(100 * us)))}
		}, 0.7, 0.5, 2},
		{"doubled", func(*bottleneck, int) []units.Time { return []units.Time{usual, usual + 30*us} }, 0.95, 0.9, 1.1},
		{"forged: the least rate, for each flow now and then", func(b *bottleneck, flow int) []units.Time {
			if b.rand.IntN(10) == 0 {
				b.inTransit = append(b.inTransit, delivery{b.now + us, flow, Feedback{CP: CP{Queue: 2}, DeltaF: b.params.DeltaF}})
			}
			return []units.Time{usual}
		}, 0.4, 0.3, 1.5},
		{"forged: the line rate, as of the congestion point", func(b *bottleneck, flow int) []units.Time {
			b.inTransit = append(b.inTransit, delivery{b.now + us, flow, Feedback{CP: CP{Queue: 1}, Rate: 4000, DeltaF: b.params.DeltaF}})
			return []units.Time{usual}
		}, 0.9, 0.5, 3},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newBottleneck(10, 40*units.Gbps)
			b.run(10 * ms)
			calm := b.disturb
			b.disturb = func(flow int) []units.Time { return c.disturb(b, flow) }
			minShare, maxShare, used, queue := b.measure(10 * ms)
			t.Logf("meanwhile: %.3f to %.3f of the fair rate, %.3f of the link, queue %.2f of Q_ref", minShare, maxShare, used, queue)
			if used < c.used || minShare < c.minShare || maxShare > c.maxShare {
				t.Errorf("meanwhile flows have %.3f to %.3f of the fair rate, want %v to %v, and use %.3f of the link, want %v", minShare, maxShare, c.minShare, c.maxShare, used, c.used)
			}
			b.disturb = calm
			b.queue = min(b.queue, 4*float64(b.params.QMax)) // limit of a buffer
			b.run(b.now + 10*ms)
			minShare, maxShare, used, queue = b.measure(5 * ms)
			if minShare < 0.98 || maxShare > 1.02 || used < 0.99 || queue < 0.95 || queue > 1.05 {
				t.Errorf("afterwards: %.3f to %.3f of the fair rate, %.3f of the link, queue %.3f of Q_ref", minShare, maxShare, used, queue)
			}
		})
	}
}

func (b *bottleneck) lose(share float64, delay units.Time) []units.Time {
	if b.rand.Float64() < share {
		return nil
	}
	return []units.Time{delay}
}

// TestTheQueueComesToItsReference: the queue reaches its reference for any number of
// flows, and every flow has its share.
func TestTheQueueComesToItsReference(t *testing.T) {
	for _, line := range []units.Rate{units.Gbps, 10 * units.Gbps, 40 * units.Gbps, 100 * units.Gbps} {
		for _, flows := range []int{2, 3, 7, 10, 33, 64} {
			b := newBottleneck(flows, line)
			b.next = b.params.Interval
			b.run(500 * b.params.Interval)
			b.queue = min(b.queue, 4*float64(b.params.QMax))
			b.run(1000 * b.params.Interval)
			minShare, maxShare, used, queue := b.measure(200 * b.params.Interval)
			if minShare < 0.98 || maxShare > 1.02 || used < 0.99 || queue < 0.95 || queue > 1.05 {
				t.Errorf("%d flows at %v: %.3f to %.3f of the fair rate, %.3f of the link, queue %.3f of Q_ref", flows, line, minShare, maxShare, used, queue)
			}
		}
	}
}
