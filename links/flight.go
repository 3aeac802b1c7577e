package links

import (
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/prefetch"
	"github.com/weftlab/weft/sim/units"
)

// flight is the packets under way on a link. It has a single entry in the
// event queue however many there are: they arrive in the order they came,
// except for those that may overtake.
type flight struct {
	order    arrivals // those that arrive in order
	timer    sim.Timer
	to       Receiver
	far      sim.Prefetcher // to; nil if it has nothing to fetch
	arrival  units.Time     // of the last packet that was put in order
	disorder bool           // late holds packets
	up       bool
	epoch    uint8 // counts how often the link went down

	delivered uint64
	late      lateQueue // packets that may be overtaken, or overtake
	pool      *packet.Pool
	cutCount  uint64

	inbox *Inbox           // of the receiver's process; nil when the sender is in the same one
	lost  []*packet.Packet // cut, unless the sender took some back (Inbox.Settle)
}

func (f *flight) empty() bool { return f.order.len() == 0 && !f.disorder }

// put adds a packet that goes in order: it never arrives before its
// predecessor. The packet itself is not touched: it has long left the
// processor's cache, and its sender may still take it back.
func (f *flight) put(at units.Time, p *packet.Packet) {
	at = max(at, f.arrival)
	f.arrival = at
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

// land does what a letter from another engine says. A packet is lost when the
// link has gone down since it was sent.
func (f *flight) land(l *letter) {
	switch {
	case l.packet == nil:
		f.giveBack(int(l.at))
	case int8(l.way.epoch-f.epoch) < 0:
		f.lose(l.packet)
	case l.way.overtake:
		f.putLate(l.packet)
	default:
		f.put(l.at, l.packet)
	}
}

// lose ends a packet that was under way when the link went down. Where the
// sender may yet take it back, that is decided later.
func (f *flight) lose(p *packet.Packet) {
	if f.inbox == nil {
		f.cutCount++
		f.pool.Free(p)
		return
	}
	if len(f.lost) == 0 {
		f.inbox.cut = append(f.inbox.cut, f)
	}
	f.lost = append(f.lost, p)
}

// settle ends the packets that are lost for good.
func (f *flight) settle() {
	for _, p := range f.lost {
		f.cutCount++
		f.pool.Free(p)
	}
	clear(f.lost)
	f.lost = f.lost[:0]
}

// giveBack forgets the last n packets in order, which the sender has taken
// back. If the link has gone down meanwhile they are the last that were lost:
// what is sent afterwards comes after this.
func (f *flight) giveBack(n int) {
	if f.order.len() == 0 {
		f.lost = f.lost[:len(f.lost)-n]
		return
	}
	f.recall(n)
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
	prefetch.Head(next.packet, used)
	f.deliver(now, p)
	// A packet that has come may have brought the link down.
	if f.order.len() > 0 && f.order.first() == next {
		f.timer.Arm(next.at)
	}
}

// used is how many bytes of a packet a switch looks at.
const used = 2 * prefetch.Line

// Prefetch asks for what Fire needs: the packet and the port that it comes to.
func (f *flight) Prefetch() {
	if f.order.len() == 0 {
		return
	}
	prefetch.Head(f.order.first().packet, used)
	if f.far != nil {
		f.far.Prefetch()
	}
}

func (f *flight) deliver(now units.Time, p *packet.Packet) {
	p.At, p.Next = now, nil
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
	order, late := f.order, f.late
	f.order, f.late, f.arrival, f.disorder = arrivals{}, lateQueue{}, 0, false
	f.timer.Disarm()
	for order.len() > 0 {
		a := order.pop()
		f.land(&letter{packet: a.packet, at: a.at, way: way{epoch: a.packet.Epoch}})
	}
	for _, p := range late.packets {
		f.land(&letter{packet: p, at: p.At, way: way{p.Epoch, true}})
	}
}

// recall takes the last n packets out of the order.
func (f *flight) recall(n int) {
	f.order.drop(n)
	f.arrival = 0
	if f.order.len() > 0 {
		f.arrival = f.order.fromEnd(0).at
	} else if !f.disorder {
		f.timer.Disarm()
	}
}
