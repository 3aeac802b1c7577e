package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/trim"
)

// handleOverflow handles a packet that does not fit into its queue. It returns the packet
// that continues instead, into the queue of its Prio, where it fits; nil if there
// is none.
func (p *Port) handleOverflow(now units.Time, q *classQueue, pkt *packet.Packet, fate packet.Fate) *packet.Packet {
	c := p.classes
	for q.fair != nil && q.count > 0 && c.Buffer.CheckQueue(pkt.In, p.Index, pkt.Prio, pkt.Size) == fate && fate != packet.Fine {
		// The flow with the most bytes in the queue makes room, not the one that
		// arrives last (RFC 8290 §4.1).
		q.count--
		victim := q.fair.DropFattest()
		p.countDeparted(now, q, victim)
		p.informRemoved(now, q, victim, fate)
		p.dropClass(now, q, victim, fate)
		fate = c.Buffer.CheckFit(pkt.In, p.Index, pkt.Prio, pkt.Size)
	}
	if fate == packet.Fine {
		return pkt
	}
	p.refuse(now, pkt, fate)
	t := c.settingsOf(q.prio).Trim
	if t == nil {
		p.dropClass(now, q, pkt, fate)
		return nil
	}
	if t.Tail > 0 && q.fair == nil && c.rand.Float64() < float64(t.Tail) && !p.swapLast(now, q, pkt, fate) {
		return nil
	}
	cut := trim.TrimPacket(p.pool, pkt, t)
	if cut == nil {
		p.dropClass(now, q, pkt, fate)
		return nil
	}
	q.trimmed++
	p.counters.Trimmed++
	cut.Prio = c.Map.DSCP[t.DSCP]
	cut.Fate, cut.Depth = packet.Trimmed, uint32(q.bytes)
	headers := c.queue[cut.Prio]
	switch {
	case c.dropping>>cut.Prio&1 == 0 && c.Buffer.CheckFit(cut.In, p.Index, cut.Prio, cut.Size) == packet.Fine:
		return cut
	case t.Return && c.Forward != nil:
		if p.observer != nil {
			p.observer.Observe(now, p, Out, cut, packet.Returned, q.bytes)
		}
		p.counters.Returned++
		trim.ReturnToSender(cut)
		c.Forward(now, cut)
	default:
		p.dropClass(now, headers, cut, packet.HeaderFull)
	}
	return nil
}

// refuse counts a packet for which there is no room, and pauses its senders if it belongs to a
// class that must not lose it and they are not paused yet.
func (p *Port) refuse(now units.Time, pkt *packet.Packet, why packet.Fate) {
	if c := p.classes; c.Buffer.Refuse(pkt.In, pkt.Prio, why) {
		c.Ports[pkt.In].handleHeld(now, pkt.Prio, pkt.Size, p.Index)
	}
}

// swapLast replaces the last packet in the queue by pkt, if pkt fits there. pkt is then
// the former last packet. It returns false if the congestion point has dropped pkt.
// full is the reason why pkt does not fit into the queue in addition to the last
// packet.
func (p *Port) swapLast(now units.Time, q *classQueue, pkt *packet.Packet, full packet.Fate) bool {
	if !p.fitsForLast(now, q, pkt) {
		return true
	}
	if q.point != nil {
		fate := q.point.OnEnqueue(now, p.classView(q), pkt)
		if fate.IsDrop() {
			p.dropClass(now, q, pkt, fate)
			return false
		}
		if fate == packet.Marked {
			q.countMark(p, pkt)
		}
		// The point may have sent a packet into this queue, or made pkt longer.
		if !p.fitsForLast(now, q, pkt) {
			p.informRemoved(now, q, pkt, p.trimmedFate(pkt, full))
			return true
		}
	}
	c, last := p.classes, q.packets.Last()
	c.Buffer.DischargePacket(last.In, p.Index, q.prio, last.Size)
	c.Buffer.ChargePacket(now, pkt.In, p.Index, q.prio, pkt.Size)
	q.changeLength(now, pkt.Size-last.Size)
	p.bytes += pkt.Size - last.Size
	// Swap the contents: the packet before the last one keeps pointing to it.
	*last, *pkt = *pkt, *last
	last.Next, pkt.Next = nil, nil
	if q.count == 1 {
		c.updateReady(q.prio)
	}
	p.informRemoved(now, q, pkt, p.trimmedFate(pkt, full))
	return true
}

// fitsForLast reports whether a packet fits into its queue instead of the last one.
func (p *Port) fitsForLast(now units.Time, q *classQueue, pkt *packet.Packet) bool {
	if q.count == 0 {
		return false
	}
	c, last := p.classes, q.packets.Last()
	c.Buffer.DischargePacket(last.In, p.Index, q.prio, last.Size)
	fits := c.Buffer.CheckFit(pkt.In, p.Index, q.prio, pkt.Size) == packet.Fine
	c.Buffer.ChargePacket(now, last.In, p.Index, q.prio, last.Size)
	return fits
}

// trimmedFate returns the fate of a packet for which there is no room: it is trimmed
// if possible.
func (p *Port) trimmedFate(pkt *packet.Packet, full packet.Fate) packet.Fate {
	if trim.CanTrim(pkt, p.classes.settingsOf(pkt.Prio).Trim) {
		return packet.Trimmed
	}
	return full
}
