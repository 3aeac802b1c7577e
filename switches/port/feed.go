package port

import (
	"math/bits"

	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
)

// Feeder has packets for a port beside those in its queues: an RDMA NIC, which
// makes a packet only when it can leave.
type Feeder interface {
	// Next gives the packet of a class that leaves now, which becomes the
	// port's; nil if there is none after all. It may call Port.Feed for any
	// class, but for this one that counts only if it gives a packet: with nil
	// the class is no longer fed.
	Next(now units.Time, prio uint8) *packet.Packet
}

// SetFeeder gives a port with classes somebody who feeds it. It is called
// before the run, behind SetClasses and Connect.
//
// What the feeder has takes part in everything that the packets of its class
// do: the scheduler among classes charges it, the pauses of the peer hold it
// up, and MAC control frames go before it. Where packets wait in the queue of
// the class as well, the two take turns, packet by packet. The class's
// congestion point judges a fed packet like one that finds the port idle, by
// what waits in the queue. It is in no queue and takes nothing of the buffer.
//
// While the pause watchdog discards a class the port takes fed packets of it
// and drops them, when no other class has anything to send. A fed packet that
// the watchdog or the congestion point drops takes the time that it would have
// taken to send it: somebody who has packets without end must not get rid of
// all of them in an instant.
func (p *Port) SetFeeder(f Feeder) { p.classes.feeder = f }

// Feed tells that the feeder has a packet of a class to send, one of those
// that the port has; 0 that it has none. That holds until it tells otherwise.
// Size is that of the frame, without FCS; a packet of another length is charged
// as it is when it leaves. An idle port asks for the packet at once, so Next
// may be called before Feed returns. A port without a link never asks.
func (p *Port) Feed(now units.Time, prio uint8, size units.Bytes) {
	c, bit := p.classes, uint8(1)<<prio
	before := c.ready
	if size > 0 {
		c.fed |= bit
		c.queue[prio].feeds = packet.OnWire(size)
	} else {
		c.fed &^= bit
	}
	c.show(prio)
	if c.gated&bit != 0 && p.link != nil {
		if lacked := c.lacking & bit; p.affords(now, prio) && lacked != 0 {
			before &^= bit // it may go on, with something shorter
		}
	}
	switch {
	case p.link == nil || c.ready == before:
	case c.blocked&bit != 0:
		c.flow.backlog(now, c.ready)
	case c.ready&bit == 0:
	case p.freeAt <= now:
		p.startClasses(now)
	default:
		p.armNext()
	}
}

// Refuse ends a packet that the port's feeder cannot keep until it may leave, as if
// the queue of its class did not take it.
func (p *Port) Refuse(now units.Time, k *packet.Packet, why packet.Fate) {
	k.Fate, k.Depth, k.In = packet.Fine, 0, buffer.Own
	p.dropClass(now, p.classes.queue[k.Prio], k, why)
}

// show notes whether a class has something to send, and that what comes first is
// not known any more.
func (c *classes) show(prio uint8) {
	bit := uint8(1) << prio
	c.known &^= bit
	c.ready &^= bit
	if c.fed&bit != 0 || c.queue[prio].count > 0 {
		c.ready |= bit
	}
}

// look finds out how long the next packet of each of some classes is: the first
// one of its queue, or what the feeder has. That is done when several have to
// share, and not for each packet that waits, which would have to be fetched from
// memory for it.
func (c *classes) look(classes uint8) {
	for m := classes &^ c.known; m != 0; m &= m - 1 {
		prio := uint8(bits.TrailingZeros8(m))
		if c.feedsNext(prio) {
			c.first[prio] = c.queue[prio].feeds
		} else {
			c.first[prio] = packet.OnWire(c.queue[prio].head().Size)
		}
	}
	c.known |= classes
}

// feedsNext tells whether the next packet of a class is the feeder's.
func (c *classes) feedsNext(prio uint8) bool {
	return c.fed>>prio&1 != 0 && (c.queue[prio].count == 0 || c.turn>>prio&1 != 0)
}

// startFed puts what the feeder has of a class on the link. Shared tells that
// the class takes from others, and is charged.
func (p *Port) startFed(now units.Time, prio uint8, shared bool) {
	c := p.classes
	q := c.queue[prio]
	// What is sent or fed into this port meanwhile waits.
	p.freeAt = units.Never
	k := c.feeder.Next(now, prio)
	if k == nil {
		p.freeAt = now
		p.Feed(now, prio, 0)
		return
	}
	c.turn &^= 1 << prio
	c.show(prio)
	if c.gated>>prio&1 != 0 && !q.spends.Affords(k.Size) {
		// It is longer than was said: it waits in the queue.
		k.Fate, k.Depth, k.At, k.In, k.Prio = packet.Fine, 0, now, buffer.Own, prio
		p.freeAt = now
		p.wait(now, q, k)
		return
	}
	k.Fate, k.Depth, k.At, k.In, k.Prio = packet.Fine, 0, now, buffer.Own, prio
	fate := packet.Fine
	switch {
	case c.dropping>>prio&1 != 0:
		fate = packet.Watchdog
	case q.point != nil:
		fate = q.point.Enqueue(now, p.classView(q), k)
	}
	tx, size := p.txTime(k), packet.OnWire(k.Size)
	p.freeAt = now
	sent := false
	if fate.Dropped() {
		p.dropClass(now, q, k, fate)
	} else {
		if fate == packet.Marked {
			q.mark(p, k)
		}
		sent = p.begin(now, q, k)
	}
	if !sent {
		p.freeAt = now + tx
		if c.gated>>prio&1 != 0 {
			p.judge(now, prio)
		}
	}
	if shared {
		c.sched.Sent(int(prio), size)
	}
}
