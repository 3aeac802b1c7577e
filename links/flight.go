package links

import (
	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/units"
)

// flight is the packets under way on a link. It has a single entry in the
// event queue however many there are: they arrive in the order they came,
// except for those that may overtake.
type flight struct {
	first, last *packet.Packet // in order of arrival
	timer       sim.Timer
	to          Receiver
	arrival     units.Time // of the last packet that was put in order
	count       int32      // packets from first to last
	disorder    bool       // late holds packets
	up          bool
	epoch       uint8 // counts how often the link went down

	delivered uint64
	late      lateQueue // packets that may be overtaken, or overtake
	pool      *packet.Pool
	cutCount  uint64
}

func (f *flight) empty() bool { return f.first == nil && !f.disorder }

// put adds a packet that goes in order: it never arrives before its
// predecessor.
func (f *flight) put(p *packet.Packet) {
	at := max(p.At, f.arrival)
	f.arrival = at
	p.At, p.Next = at, nil
	f.count++
	if f.first != nil {
		f.last.Next = p
		f.last = p
		return
	}
	f.first, f.last = p, p
	if !f.disorder || at < f.timer.Due() {
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
	p := f.first
	next := p.Next
	f.first = next
	f.count--
	if next == nil {
		f.deliver(now, p)
		return
	}
	// The time is read here and used below: while p is on its way the
	// processor fetches the next packet, which it has not seen for a while.
	at := next.At
	f.deliver(now, p)
	if f.first == next {
		f.timer.Arm(at)
	}
}

func (f *flight) deliver(now units.Time, p *packet.Packet) {
	p.Next = nil
	f.delivered++
	f.to.Receive(now, p)
}

// takeLate takes the next packet where some may overtake.
func (f *flight) takeLate() *packet.Packet {
	p := f.first
	if l := f.late.peek(); p == nil || l.At < p.At {
		p = f.late.pop()
	} else {
		f.first = p.Next
		f.count--
	}
	f.disorder = f.late.len() > 0
	next := units.Never
	if f.first != nil {
		next = f.first.At
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
	for p := f.first; p != nil; {
		next := p.Next
		kept.land(p, false)
		p = next
	}
	for _, p := range f.late.packets {
		kept.land(p, true)
	}
	*f = kept
}

// before gives the packet before the last n in order, nil when there is none.
func (f *flight) before(n int) *packet.Packet {
	if n == int(f.count) {
		return nil
	}
	p := f.first
	for range int(f.count) - n - 1 {
		p = p.Next
	}
	return p
}

// recall takes the last n packets out of the order.
func (f *flight) recall(n int) *packet.Packet {
	last := f.before(n)
	if last == nil {
		p := f.first
		f.first, f.last, f.count, f.arrival = nil, nil, 0, 0
		if !f.disorder {
			f.timer.Disarm()
		}
		return p
	}
	p := last.Next
	last.Next = nil
	f.last, f.arrival = last, last.At
	f.count -= int32(n)
	return p
}
