// Package accurateswitch implements the contention point of ACCurate at an egress queue. It
// belongs to the queue in which the FRPs of a link wait, and ignores all other packets.
// Package protocols/accurate has the computation, the FRP, and the reaction point.
package accurateswitch

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/accurate"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// point is the contention point of one queue.
type point struct {
	congestion.Passive
	env   congestion.Env
	point accurate.Point

	frps, inits, stops, shorts uint64
}

// OnEnqueue implements congestion.Point: all packets may join. FRPs are processed here and not
// when they leave, because a flow-init must lower the rate of the FRPs behind it.
func (c *point) OnEnqueue(now units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
	if p.Kind != packet.Protocol || p.Message.Protocol != accurate.Protocol {
		return packet.Fine
	}
	c.point.CountFRP(now, packet.OnWire(p.Size))
	f := p.Message.Body.(*accurate.FRP)
	if f.Response || p.Trimmed || p.Returned {
		return packet.Fine
	}
	switch f.Kind {
	case accurate.Init:
		c.inits++
	case accurate.Stop:
		c.stops++
	default:
		c.frps++
	}
	if c.point.ProcessFRP(now, f) {
		c.sendShortCircuit(p, f)
	}
	return packet.Fine
}

// sendShortCircuit sends a short-circuit reply to the source of an FRP (§II-A). The FRP continues.
func (c *point) sendShortCircuit(p *packet.Packet, f *accurate.FRP) {
	m := c.env.NewReply(p, accurate.Protocol)
	if m == nil {
		return
	}
	b := m.Message.Body.(*accurate.FRP)
	b.Set(f)
	b.Response, b.Short = true, true
	m.TOS, m.SrcPort = p.TOS, p.SrcPort
	c.shorts++
	c.env.Send(m)
}

// AppendGauges implements congestion.Point.
func (c *point) AppendGauges(now units.Time, _ congestion.Queue, values []float64) []float64 {
	r, old := c.point.Registers(now)
	return append(values, float64(r.FSR), float64(old.M), float64(old.B), float64(old.BMax), float64(old.N),
		float64(c.frps), float64(c.inits), float64(c.stops), float64(c.shorts))
}
