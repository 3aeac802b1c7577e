package qcn

import (
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
)

const ms = units.Millisecond

// bottleneck models flows that always have packets to send through a queue with a
// congestion point, and the messages that come back.
type bottleneck struct {
	config Config
	line   units.Rate // of the senders and of the bottleneck
	delay  units.Time // of a message
	packet units.Bytes
	rand   *rand.Rand

	cp    *CP
	flows []*loopFlow
	free  units.Time // when all that is queued has left

	sum float64 // of the queue length after each packet
	n   int
}

type loopFlow struct {
	rp   *Control
	next units.Time // the next packet
	cnms []loopCNM  // in flight
	sent units.Bytes
}

type loopCNM struct {
	at units.Time
	f  CNM
}

func newBottleneck(flows int) *bottleneck {
	b := &bottleneck{
		config: Preset("standard", 10*units.Gbps), line: 10 * units.Gbps,
		delay: 20 * units.Microsecond, packet: 1500, rand: rand.New(rand.NewPCG(1, 2)),
	}
	b.cp = NewCP(StandardCP(), b.rand)
	for i := range flows {
		b.flows = append(b.flows, &loopFlow{rp: New(&b.config, b.line, b.rand), next: units.Time(i) * units.Microsecond})
	}
	return b
}

// run runs until end.
func (b *bottleneck) run(end units.Time) {
	for {
		var first *loopFlow
		at := end
		for _, f := range b.flows {
			t := min(f.next, f.rp.NextTimer())
			if len(f.cnms) > 0 {
				t = min(t, f.cnms[0].at)
			}
			if t < at {
				first, at = f, t
			}
		}
		if first == nil {
			return
		}
		first.rp.OnTimer(at)
		switch {
		case len(first.cnms) > 0 && first.cnms[0].at == at:
			first.rp.OnMessage(at, &first.cnms[0].f)
			first.cnms = first.cnms[1:]
		case first.next == at:
			b.send(first, at)
		}
	}
}

func (b *bottleneck) send(f *loopFlow, now units.Time) {
	b.free = max(b.free, now) + b.line.TimeOf(b.packet)
	queue := b.line.BytesIn(b.free - now)
	b.sum, b.n = b.sum+float64(queue), b.n+1
	if s, ok := b.cp.CountFrame(b.packet, queue); ok {
		f.cnms = append(f.cnms, loopCNM{now + b.delay, CNM{Fb: s.Fb}})
	}
	f.rp.OnPacketSent(now, b.packet)
	f.sent += b.packet
	f.next = now + f.rp.Rate().TimeOf(b.packet)
}

// TestTheQueueStaysAtTheSetPoint: flows that always send fill the link, share it, and
// leave a queue of about cpQSp. Feedback goes only to the senders of sampled frames, so
// shares differ for longer than with DCQCN.
func TestTheQueueStaysAtTheSetPoint(t *testing.T) {
	for _, flows := range []int{2, 4, 10} {
		b := newBottleneck(flows)
		b.run(200 * ms)
		for _, f := range b.flows {
			f.sent = 0
		}
		b.sum, b.n = 0, 0
		b.run(1000 * ms)
		var sum float64
		var shares []float64
		for _, f := range b.flows {
			s := float64(f.sent) / float64(b.line.BytesIn(800*ms))
			sum, shares = sum+s, append(shares, s)
		}
		queue, jain := b.sum/float64(b.n), fairness.Jain(shares...)
		t.Logf("%d flows: %.1f%% of the link, Jain's index %.3f, queue %.1f KB", flows, 100*sum, jain, queue/1000)
		if sum < 0.98 || jain < 0.85 || queue < 0.8*26e3 || queue > 1.2*26e3 {
			t.Errorf("%d flows: %.3f of the link, Jain's index %.3f, queue %.0f bytes, want all, about 1 and 26000", flows, sum, jain, queue)
		}
	}
}
