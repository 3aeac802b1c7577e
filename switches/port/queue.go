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

// pushPacket adds a packet to the queue.
func (p *Port) pushPacket(now units.Time, pkt *packet.Packet) {
	q := &p.list
	p.counters.integrateQueue(now, p.bytes)
	pkt.Next = nil
	if q.first == nil {
		q.first = pkt
		q.timer.Arm(p.freeAt)
	} else {
		q.last.Next = pkt
	}
	q.last = pkt
	q.packets++
	p.bytes += pkt.Size
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
	pkt := q.first
	p.counters.integrateQueue(now, p.bytes)
	q.first = pkt.Next
	q.packets--
	p.bytes -= pkt.Size
	p.startPacket(now, pkt)
}

// startPacket puts a packet's first bit on the link, unless the congestion point drops
// it, and arms the timer for the next packet.
func (p *Port) startPacket(now units.Time, pkt *packet.Packet) {
	if p.point == nil {
		p.transmitPacket(now, pkt)
	} else {
		// Packets that the point sends into this queue wait until pkt has begun to
		// leave.
		p.freeAt = units.Never
		fate := p.point.OnDequeue(now, p.queueView(now), pkt)
		if fate.IsDrop() {
			p.freeAt = now
			p.dropPacket(now, pkt, fate)
		} else {
			p.recordMark(pkt, fate)
			p.transmitPacket(now, pkt)
		}
	}
	if p.list.first != nil {
		p.list.timer.Arm(p.freeAt)
	} else if p.mayAhead {
		p.goAhead(now)
	}
}

// transmitPacket puts a packet's first bit on the link.
func (p *Port) transmitPacket(now units.Time, pkt *packet.Packet) {
	if p.stamp != nil {
		p.stamp.writeTelemetry(now, p, pkt)
	}
	tx := p.txTime(pkt)
	p.freeAt = now + tx
	p.countSent(now, pkt)
	fate := p.link.DecideFate(now, tx, pkt)
	if p.delays {
		p.delayPacket(pkt)
	}
	if p.observer != nil {
		shown, depth := fate, units.Bytes(0)
		if pkt.Fate != packet.Fine {
			depth = units.Bytes(pkt.Depth)
		}
		if fate == packet.Fine {
			shown = pkt.Fate
		}
		p.observer.Observe(now, p, Out, pkt, shown, depth)
	}
	if fate == packet.Fine {
		p.link.LaunchPacket(pkt)
	} else {
		p.losePacket(now, pkt, fate)
	}
}

// countSent counts a packet whose first bit leaves at the given time.
func (p *Port) countSent(at units.Time, pkt *packet.Packet) {
	p.tx.addPacket(pkt.Size)
	p.trace.addAction(at, pkt, pkt.Fate)
}
