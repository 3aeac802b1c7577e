package port

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/trim"
)

// overflow deals with a packet that does not fit into its queue. It gives the
// packet that goes on in its place, into the queue of its Prio, where it fits;
// nil when there is none.
func (p *Port) overflow(now units.Time, q *classQueue, k *packet.Packet, fate packet.Fate) *packet.Packet {
	c := p.classes
	for q.fair != nil && q.count > 0 && fate == packet.QueueFull {
		// The flow that takes most of the queue makes room, not whoever comes
		// last (RFC 8290 §4.1).
		q.count--
		victim := q.fair.DropFattest()
		p.gone(now, q, victim)
		p.dropClass(now, q, victim, packet.QueueFull)
		fate = c.Buffer.Fits(k.In, p.Index, k.Prio, k.Size)
	}
	if fate == packet.Fine {
		return k
	}
	t := c.settingsOf(q.prio).Trim
	if t == nil {
		p.dropClass(now, q, k, fate)
		return nil
	}
	if t.Tail > 0 && q.fair == nil && c.rand.Float64() < float64(t.Tail) {
		p.exchange(now, q, k)
	}
	cut := trim.Cut(p.pool, k, t)
	if cut == nil {
		p.dropClass(now, q, k, fate)
		return nil
	}
	q.trimmed++
	p.counters.Trimmed++
	cut.Prio = c.Map.DSCP[t.DSCP]
	cut.Fate, cut.Depth = packet.Trimmed, uint32(q.bytes)
	headers := &c.queue[cut.Prio]
	switch {
	case c.dropping>>cut.Prio&1 == 0 && c.Buffer.Fits(cut.In, p.Index, cut.Prio, cut.Size) == packet.Fine:
		return cut
	case t.Return && c.Forward != nil:
		if p.observer != nil {
			p.observer.Observe(now, p, Out, cut, packet.Returned, q.bytes)
		}
		p.counters.Returned++
		trim.Return(cut)
		c.Forward(now, cut)
	default:
		p.dropClass(now, headers, cut, packet.HeaderFull)
	}
	return nil
}

// exchange lets a packet take the place of the last one in its queue, if it
// fits there. Then k is what was the last.
func (p *Port) exchange(now units.Time, q *classQueue, k *packet.Packet) {
	if q.count == 0 {
		return
	}
	c, last := p.classes, q.packets.Last()
	c.Buffer.Remove(last.In, p.Index, q.prio, last.Size)
	if c.Buffer.Fits(k.In, p.Index, q.prio, k.Size) != packet.Fine {
		c.Buffer.Add(now, last.In, p.Index, q.prio, last.Size)
		return
	}
	c.Buffer.Add(now, k.In, p.Index, q.prio, k.Size)
	q.change(now, k.Size-last.Size)
	p.bytes += k.Size - last.Size
	// They change places by changing what they are: the one before the last
	// keeps pointing to it.
	*last, *k = *k, *last
	last.Next, k.Next = nil, nil
	if q.count == 1 {
		c.show(q.prio)
	}
}
