package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// waiting holds packets that wait to be started one by one.
type waiting struct {
	first, last *packet.Packet
	packets     int
	timer       sim.Timer // fires at the end of the packet being sent; armed only while others wait
}

// push adds a packet to the queue.
func (p *Port) push(now units.Time, k *packet.Packet) {
	q := &p.list
	p.counters.queued(now, p.bytes)
	k.Next = nil
	if q.first == nil {
		q.first = k
		q.timer.Arm(p.freeAt)
	} else {
		q.last.Next = k
	}
	q.last = k
	q.packets++
	p.bytes += k.Size
	p.counters.MaxQueue = max(p.counters.MaxQueue, p.bytes)
}

// Fire is called at the end of a packet and begins the next.
func (p *Port) Fire(now units.Time) {
	if p.classes != nil {
		p.startClasses(now)
		return
	}
	p.drainDeparted(now)
}

// startNext begins the first waiting packet.
func (p *Port) startNext(now units.Time) {
	q := &p.list
	k := q.first
	p.counters.queued(now, p.bytes)
	q.first = k.Next
	q.packets--
	p.bytes -= k.Size
	p.start(now, k)
}

// start puts a packet's first bit on the link, unless the congestion point drops
// it, and arms the timer for the next packet.
func (p *Port) start(now units.Time, k *packet.Packet) {
	if p.point == nil {
		p.transmit(now, k)
	} else {
		// Packets that the point sends into this queue wait until k has begun to
		// leave.
		p.freeAt = units.Never
		fate := p.point.Dequeue(now, p.view(now), k)
		if fate.Dropped() {
			p.freeAt = now
			p.drop(now, k, fate)
		} else {
			p.note(k, fate)
			p.transmit(now, k)
		}
	}
	if p.list.first != nil {
		p.list.timer.Arm(p.freeAt)
	} else if p.mayAhead {
		p.goAhead(now)
	}
}

// transmit puts a packet's first bit on the link.
func (p *Port) transmit(now units.Time, k *packet.Packet) {
	if p.stamp != nil {
		p.stamp.write(now, p, k)
	}
	tx := p.txTime(k)
	p.freeAt = now + tx
	p.sent(now, k)
	fate := p.link.Admit(now, tx, k)
	if p.observer != nil {
		shown, depth := fate, units.Bytes(0)
		if k.Fate != packet.Fine {
			depth = units.Bytes(k.Depth)
		}
		if fate == packet.Fine {
			shown = k.Fate
		}
		p.observer.Observe(now, p, Out, k, shown, depth)
	}
	if fate == packet.Fine {
		p.link.Launch(k)
	} else {
		p.lose(now, k, fate)
	}
}

// sent counts a packet whose first bit leaves at the given time.
func (p *Port) sent(at units.Time, k *packet.Packet) {
	p.tx.add(k.Size)
	p.trace.add(at, k, k.Fate)
}
