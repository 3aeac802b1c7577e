package links

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// arrival is a packet in flight and its arrival time. The time is beside the packet: packets
// have long left the processor's cache when they arrive, and so only the arriving one is
// fetched.
type arrival struct {
	at     units.Time
	packet *packet.Packet
}

// Flight holds the packets in flight on a link. It has a single entry in the event
// queue however many there are: they arrive in the order in which they were sent,
// unless they may overtake.
//
// Its first two cache lines are what a packet needs.
type Flight struct {
	order    queue.FIFO[arrival] // those that arrive in order
	timer    sim.Timer
	arrival  units.Time // of the last packet that was put in order
	disorder bool       // late holds packets
	up       bool
	epoch    uint8 // counts how often the link went down

	to        Receiver
	delivered uint64
	reads     packet.Part    // what to reads of a packet
	far       sim.Prefetcher // to; nil if it has nothing to fetch
	pool      *packet.Pool
	inbox     *Inbox // of the receiver's process; nil when the sender is in the same one

	late     lateQueue // packets that may be overtaken, or overtake
	cutCount uint64
	lost     []*packet.Packet // cut, unless the sender recalled some (Inbox.FreeLostPackets)
}

func (f *Flight) isEmpty() bool { return f.order.Len() == 0 && !f.disorder }

// putPacket adds an in-order packet: it never arrives before its predecessor. The packet
// itself is not touched: it has long left the processor's cache, and its sender may
// still recall it.
func (f *Flight) putPacket(at units.Time, p *packet.Packet) {
	at = max(at, f.arrival)
	f.arrival = at
	f.order.Push(arrival{at, p})
	if f.order.Len() == 1 && (!f.disorder || at < f.timer.DueTime()) {
		f.timer.Arm(at)
	}
}

// putLate adds a packet that arrives at its own time, whatever the order.
func (f *Flight) putLate(p *packet.Packet) {
	f.late.pushPacket(p)
	f.disorder = true
	if p.At < f.timer.DueTime() {
		f.timer.Arm(p.At)
	}
}

// receiveMessage processes a message from another engine. A packet is lost if the link has gone
// down since it was sent.
func (f *Flight) receiveMessage(l *message) {
	switch {
	case l.packet == nil:
		f.recallLast(int(l.at))
	case int8(l.sent.epoch-f.epoch) < 0:
		f.losePacket(l.packet)
	case l.sent.overtake:
		f.putLate(l.packet)
	default:
		f.putPacket(l.at, l.packet)
	}
}

// losePacket drops a packet that was in flight when the link went down. If the sender may
// still recall it, settle decides later.
func (f *Flight) losePacket(p *packet.Packet) {
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

// freeLostPackets frees the packets that are finally lost.
func (f *Flight) freeLostPackets() {
	for _, p := range f.lost {
		f.cutCount++
		f.pool.Free(p)
	}
	clear(f.lost)
	f.lost = f.lost[:0]
}

// recallLast removes the last n packets in order, which the sender has recalled. If
// the link has gone down meanwhile, they are the last of the lost packets, because
// anything sent afterwards comes after this message.
func (f *Flight) recallLast(n int) {
	if f.order.Len() == 0 {
		f.lost = f.lost[:len(f.lost)-n]
		return
	}
	f.removeLast(n)
}

// Fire delivers the packet whose last bit arrives now.
func (f *Flight) Fire(now units.Time) {
	if f.disorder {
		f.deliverPacket(now, f.takeLate())
		return
	}
	p := f.order.First().packet
	f.order.DropFirst()
	if f.order.Len() == 0 {
		f.deliverPacket(now, p)
		return
	}
	next := *f.order.First()
	next.packet.Prefetch(f.reads)
	f.deliverPacket(now, p)
	// A delivered packet may have brought the link down.
	if f.order.Len() > 0 && *f.order.First() == next {
		f.timer.Arm(next.at)
	}
}

// Prefetch fetches what Fire needs: the packet and the port at which it arrives.
func (f *Flight) Prefetch() {
	if f.order.Len() == 0 {
		return
	}
	f.order.First().packet.Prefetch(f.reads)
	if f.far != nil {
		f.far.Prefetch()
	}
}

func (f *Flight) deliverPacket(now units.Time, p *packet.Packet) {
	p.At, p.Next = now, nil
	f.delivered++
	f.to.ReceivePacket(now, p)
}

// takeLate removes the next packet when some may overtake.
func (f *Flight) takeLate() *packet.Packet {
	var p *packet.Packet
	if l := f.late.peekPacket(); f.order.Len() == 0 || l.At < f.order.First().at {
		p = f.late.popPacket()
	} else {
		p = f.order.First().packet
		f.order.DropFirst()
	}
	f.disorder = f.late.length() > 0
	next := units.Never
	if f.order.Len() > 0 {
		next = f.order.First().at
	}
	if f.disorder {
		next = min(next, f.late.peekPacket().At)
	}
	if next != units.Never {
		f.timer.Arm(next)
	}
	return p
}

// cutInFlight drops the packets that were sent before the link went down. Later ones may
// already be there if the sender's engine is ahead.
func (f *Flight) cutInFlight() {
	f.epoch++
	order, late := f.order, f.late
	f.order, f.late, f.arrival, f.disorder = queue.FIFO[arrival]{}, lateQueue{}, 0, false
	f.timer.Disarm()
	for order.Len() > 0 {
		a := order.Pop()
		f.receiveMessage(&message{packet: a.packet, at: a.at, sent: sent{epoch: a.packet.Epoch}})
	}
	for _, p := range late.packets {
		f.receiveMessage(&message{packet: p, at: p.At, sent: sent{epoch: p.Epoch, overtake: true}})
	}
}

// removeLast removes the last n in-order packets.
func (f *Flight) removeLast(n int) {
	f.order.DropLast(n)
	f.arrival = 0
	if f.order.Len() > 0 {
		f.arrival = f.order.Last().at
	} else if !f.disorder {
		f.timer.Disarm()
	}
}
