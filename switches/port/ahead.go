package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// departure records when a waiting packet begins to leave. After that the port no
// longer owns the packet.
type departure struct {
	start  units.Time
	size   units.Bytes
	packet *packet.Packet
}

// headIsDue reports whether the first promised packet begins to leave at now or before.
func (p *Port) headIsDue(now units.Time) bool {
	return p.promised.Len() > 0 && p.promised.First().start <= now
}

// chooseAhead decides whether departures may be computed ahead of time: the link must be
// predictable, nothing may observe or stamp packets as they leave, and the queue's
// congestion point must not judge departures.
func (p *Port) chooseAhead(now units.Time) {
	_, arrivalsOnly := p.point.(congestion.ArrivalsOnly)
	p.mayAhead = p.classes == nil && p.link != nil && p.link.IsPredictable() && p.observer == nil && p.stamp == nil && (p.point == nil || arrivalsOnly)
	p.goAhead(now)
}

// goAhead begins to compute departures ahead of time if no packets wait.
func (p *Port) goAhead(now units.Time) {
	if p.mayAhead && !p.ahead && p.list.first == nil {
		p.ahead = true
		p.counters.integrateQueue(now, p.bytes)
	}
}

// sendAhead launches a packet, to leave now or after the packets before it. It
// returns false for packets that the link will not carry; they take the ordinary
// path.
func (p *Port) sendAhead(now units.Time, pkt *packet.Packet) bool {
	if pkt.Layer3() > p.link.MTU() {
		return false
	}
	tx := p.txTime(pkt)
	start := max(now, p.freeAt)
	pkt.At = start + tx + p.link.Delay()
	if p.delays {
		pkt.At += p.clock.DelayOf(p.tx.packets, p.jitter)
	}
	if start > now {
		p.promised.Push(departure{start, pkt.Size, pkt})
		p.bytes += pkt.Size
		p.counters.MaxQueue = max(p.counters.MaxQueue, p.bytes)
		p.counters.area.addBytes(pkt.Size, start-now)
	}
	p.freeAt = start + tx
	p.countSent(start, pkt)
	p.link.LaunchAhead(now, pkt)
	return true
}

// stopAhead takes packets that have not begun to leave back into the queue, because
// their departures are no longer determined.
func (p *Port) stopAhead(now units.Time) {
	if !p.ahead {
		return
	}
	p.drainDeparted(now)
	p.ahead = false
	p.counters.since = now
	n := p.promised.Len()
	if n == 0 {
		return
	}
	p.freeAt = p.promised.First().start
	p.subtractWait(&p.counters, now)
	p.link.RecallLast(n)
	p.list.first, p.list.last, p.list.packets = nil, nil, n
	for p.promised.Len() > 0 {
		d := p.promised.Pop()
		pkt := d.packet
		p.tx.packets--
		p.tx.bytes -= uint64(pkt.Size)
		p.trace.removeAction(d.start, pkt, pkt.Fate)
		if pkt.Next = nil; p.list.last == nil {
			p.list.first = pkt
		} else {
			p.list.last.Next = pkt
		}
		p.list.last = pkt
	}
	p.list.timer.Arm(p.freeAt)
}

// subtractWait subtracts from c the time that packets will wait after now.
func (p *Port) subtractWait(c *QueueCounters, now units.Time) {
	for i := range p.promised.Len() {
		d := p.promised.At(i)
		c.area.subtractBytes(d.size, d.start-now)
	}
}
