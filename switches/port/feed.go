package port

import (
	"math/bits"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
)

// Feeder provides packets for a port in addition to those in its queues: an RDMA
// NIC, which builds a packet only when it can leave.
type Feeder interface {
	// Next returns the packet of a class that leaves now, which the port then owns;
	// nil if there is none after all. It may call Port.AnnouncePacket for any class, but for
	// this one that only counts if it returns a packet: after nil the class is no
	// longer fed.
	Next(now units.Time, prio uint8) *packet.Packet
}

// SetFeeder sets the feeder of a port with classes. It is called before the run,
// after SetClasses and ConnectLink.
//
// Fed packets are treated like other packets of their class: the scheduler among
// classes charges them, pauses of the peer block them, and MAC control frames
// precede them. If packets also wait in the queue of the class, the two take turns,
// packet by packet. The class's congestion point judges a fed packet like one that
// finds the port idle, by the packets in the queue. A fed packet is in no queue and
// takes no buffer.
//
// While the pause watchdog discards a class the port takes fed packets of it and
// drops them, when no other class has anything to send. A fed packet that the
// watchdog or the congestion point drops takes as long as sending it: a feeder with
// unlimited packets must not lose all of them in an instant.
func (p *Port) SetFeeder(f Feeder) { p.classes.feeder = f }

// AnnouncePacket announces that the feeder has a packet to send in one of the port's classes.
// size is the length of the frame, without FCS; 0 means that the feeder has none.
// That holds until the next call. A packet of another length is charged with its
// actual length when it leaves. An idle port asks for the packet at once, so Next
// may be called before AnnouncePacket returns. A port without a link never asks.
func (p *Port) AnnouncePacket(now units.Time, prio uint8, size units.Bytes) {
	c, bit := p.classes, uint8(1)<<prio
	before := c.ready
	if size > 0 {
		c.fed |= bit
		c.queue[prio].feeds = packet.OnWire(size)
	} else {
		c.fed &^= bit
	}
	c.updateReady(prio)
	if c.gated&bit != 0 && p.link != nil {
		if lacked := c.lacking & bit; p.hasCredit(now, prio) && lacked != 0 {
			before &^= bit // it may continue, with a shorter packet
		}
	}
	switch {
	case p.link == nil || c.ready == before:
	case c.blocked&bit != 0:
		c.flow.setBacklog(now, c.ready)
	case c.ready&bit == 0:
	case p.freeAt <= now:
		p.startClasses(now)
	default:
		p.armNext()
	}
}

// RefusePacket drops a packet that the port's feeder cannot keep until it may leave, as
// if the queue of its class did not accept it.
func (p *Port) RefusePacket(now units.Time, pkt *packet.Packet, why packet.Fate) {
	pkt.Fate, pkt.In = packet.Fine, buffer.Own
	p.dropClass(now, p.classes.queue[pkt.Prio], pkt, why)
}

// updateReady updates whether a class has something to send, and invalidates the length of
// its next packet.
func (c *classes) updateReady(prio uint8) {
	bit := uint8(1) << prio
	c.known &^= bit
	c.ready &^= bit
	if c.fed&bit != 0 || c.queue[prio].count > 0 {
		c.ready |= bit
	}
}

// lookUpLengths determines the length of the next packet of each of some classes: the first
// in its queue, or the feeder's. It is done only when several classes share the
// port, and not for each waiting packet, which would have to be fetched from
// memory.
func (c *classes) lookUpLengths(classes uint8) {
	for m := classes &^ c.known; m != 0; m &= m - 1 {
		prio := uint8(bits.TrailingZeros8(m))
		if c.feedsNext(prio) {
			c.first[prio] = c.queue[prio].feeds
		} else {
			c.first[prio] = packet.OnWire(c.queue[prio].headPacket().Size)
		}
	}
	c.known |= classes
}

// feedsNext reports whether the next packet of a class is the feeder's.
func (c *classes) feedsNext(prio uint8) bool {
	return c.fed>>prio&1 != 0 && (c.queue[prio].count == 0 || c.turn>>prio&1 != 0)
}

// startFed puts the feeder's packet of a class on the link. shared means that the
// class takes from others, and is charged.
func (p *Port) startFed(now units.Time, prio uint8, shared bool) {
	c := p.classes
	q := c.queue[prio]
	// Packets sent or fed into this port meanwhile wait.
	p.freeAt = units.Never
	pkt := c.feeder.Next(now, prio)
	if pkt == nil {
		p.freeAt = now
		p.AnnouncePacket(now, prio, 0)
		return
	}
	c.turn &^= 1 << prio
	c.updateReady(prio)
	if c.gated>>prio&1 != 0 && !q.spends.HasCreditFor(pkt.Size) {
		// It is longer than announced: it waits in the queue.
		pkt.Fate, pkt.At, pkt.In, pkt.Prio = packet.Fine, now, buffer.Own, prio
		p.freeAt = now
		p.enqueueClass(now, q, pkt)
		return
	}
	pkt.Fate, pkt.At, pkt.In, pkt.Prio = packet.Fine, now, buffer.Own, prio
	fate := packet.Fine
	switch {
	case c.dropping>>prio&1 != 0:
		fate = packet.Watchdog
	case q.point != nil:
		fate = q.point.OnEnqueue(now, p.classView(q), pkt)
	}
	tx, size := p.txTime(pkt), packet.OnWire(pkt.Size)
	p.freeAt = now
	sent := false
	if fate.IsDrop() {
		p.dropClass(now, q, pkt, fate)
	} else {
		if fate == packet.Marked {
			q.countMark(p, pkt)
		}
		sent = p.beginPacket(now, q, pkt)
	}
	if !sent {
		p.freeAt = now + tx
		if c.gated>>prio&1 != 0 {
			p.checkCredit(now, prio)
		}
	}
	if shared {
		c.sched.ChargeQueue(int(prio), size)
	}
}
