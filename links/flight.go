package links

import (
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// flight is the packets under way on a link. It has a single entry in the
// event queue however many there are: they arrive in the order they came,
// except for those that may overtake.
type flight struct {
	order    arrivals // those that arrive in order
	timer    sim.Timer
	to       Receiver
	arrival  units.Time // of the last packet that was put in order
	disorder bool       // late holds packets
	up       bool
	epoch    uint8 // counts how often the link went down

	delivered uint64
	late      lateQueue // packets that may be overtaken, or overtake
	pool      *packet.Pool
	cutCount  uint64
}

func (f *flight) empty() bool { return f.order.len() == 0 && !f.disorder }

// put adds a packet that goes in order: it never arrives before its
// predecessor.
func (f *flight) put(p *packet.Packet) {
	at := max(p.At, f.arrival)
	f.arrival = at
	p.At, p.Next = at, nil
	f.order.push(arrival{at, p})
	if f.order.len() == 1 && (!f.disorder || at < f.timer.Due()) {
		f.timer.Arm(at)
	}
}

// putLate adds a packet that arrives whatever others do.
func (f *flight) putLate(p *packet.Packet) {
	f.late.push(p)
	f.disorder = true
	if p.At < f.timer.Due() {
		f.timer.Arm(p.At)
	}
}

// land adds a packet that comes from another engine, unless the link has gone
// down since it was sent.
func (f *flight) land(p *packet.Packet, overtake bool) {
	switch {
	case int8(p.Epoch-f.epoch) < 0:
		f.cutCount++
		f.pool.Free(p)
	case overtake:
		f.putLate(p)
	default:
		f.put(p)
	}
}

// Fire delivers the packet whose last bit arrives now.
func (f *flight) Fire(now units.Time) {
	if f.disorder {
		f.deliver(now, f.takeLate())
		return
	}
	p := f.order.pop().packet
	if f.order.len() == 0 {
		f.deliver(now, p)
		return
	}
	next := f.order.first()
	f.deliver(now, p)
	// A packet that has come may have brought the link down.
	if f.order.len() > 0 && f.order.first() == next {
		f.timer.Arm(next.at)
	}
}

func (f *flight) deliver(now units.Time, p *packet.Packet) {
	p.Next = nil
	f.delivered++
	f.to.Receive(now, p)
}

// takeLate takes the next packet where some may overtake.
func (f *flight) takeLate() *packet.Packet {
	var p *packet.Packet
	if l := f.late.peek(); f.order.len() == 0 || l.At < f.order.first().at {
		p = f.late.pop()
	} else {
		p = f.order.pop().packet
	}
	f.disorder = f.late.len() > 0
	next := units.Never
	if f.order.len() > 0 {
		next = f.order.first().at
	}
	if f.disorder {
		next = min(next, f.late.peek().At)
	}
	if next != units.Never {
		f.timer.Arm(next)
	}
	return p
}

// cut loses the packets that were sent before the link went down. Others may
// be there already, if the sender's engine is ahead.
func (f *flight) cut() {
	f.epoch++
	kept := flight{epoch: f.epoch, up: f.up, to: f.to, pool: f.pool, timer: f.timer, delivered: f.delivered, cutCount: f.cutCount}
	kept.timer.Disarm()
	for f.order.len() > 0 {
		kept.land(f.order.pop().packet, false)
	}
	for _, p := range f.late.packets {
		kept.land(p, true)
	}
	*f = kept
}

// last gives the last n packets in order, linked by Next.
func (f *flight) last(n int) *packet.Packet {
	var first *packet.Packet
	for i := range n {
		p := f.order.fromEnd(i).packet
		p.Next, first = first, p
	}
	return first
}

// recall takes the last n packets out of the order.
func (f *flight) recall(n int) *packet.Packet {
	p := f.last(n)
	f.order.drop(n)
	f.arrival = 0
	if f.order.len() > 0 {
		f.arrival = f.order.fromEnd(0).at
	} else if !f.disorder {
		f.timer.Disarm()
	}
	return p
}
