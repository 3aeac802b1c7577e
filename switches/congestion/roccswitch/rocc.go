// Package roccswitch implements the congestion point of RoCC (CoNEXT 2020) at an egress queue. In
// every interval it computes the fair rate from the length of the queue and sends it to the
// flows in its flow table. Package protocols/rocc has the computation, the message, and the
// reaction point.
package roccswitch

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/rocc"
	"github.com/weftlab/weft/protocols/rocc/flowtable"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// point is the congestion point of one queue.
type point struct {
	settings *Settings
	env      congestion.Env
	fair     rocc.Point
	law      rocc.Law // for messages that leave the computation to senders
	table    flowtable.Table
	next     units.Time // the next computation; units.Never while the point rests
	phase    units.Time // of the computations: they are at phase, phase+T and so on
	messages uint64

	inputs rocc.Inputs // of the last computation
}

// OnEnqueue implements congestion.Point: all packets may join.
func (c *point) OnEnqueue(now units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
	c.table.OnArrival(now, p)
	if c.next == units.Never {
		t := c.settings.Interval
		c.next = c.phase + (now-c.phase+t-1)/t*t
		c.env.Wake(c.next)
	}
	return packet.Fine
}

// OnDequeue implements congestion.Point.
func (c *point) OnDequeue(now units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
	c.table.OnDeparture(now, p)
	return packet.Fine
}

// OnRemoved implements congestion.Point.
func (c *point) OnRemoved(now units.Time, _ congestion.Queue, p *packet.Packet, _ packet.Fate) {
	c.table.OnDeparture(now, p)
}

// OnTimer implements congestion.Point. It also sends F_max: otherwise a flow whose sender has a
// faster link would rise beyond it. The point rests while a computation would change nothing:
// the queue is empty and the rate is F_max.
func (c *point) OnTimer(now units.Time, q congestion.Queue) units.Time {
	if now < c.next {
		return c.next
	}
	c.inputs = c.fair.UpdateRate(q.Bytes)
	c.table.EachFlow(now, c.sendFairRate)
	if q.Packets == 0 && c.fair.IsAtRest() {
		c.next = units.Never
	} else {
		c.next = now + c.settings.Interval
	}
	return c.next
}

// sendFairRate sends the fair rate to the sender of a flow.
func (c *point) sendFairRate(f *flowtable.Flow) {
	m := c.env.ReplyTo(congestion.Sender{Origin: f.Origin, Version: f.Version, From: f.Key.From}, rocc.Protocol)
	if m == nil {
		return
	}
	b := m.Message.Body.(*rocc.Feedback)
	b.CP = rocc.CP{Agent: m.Message.From, Queue: uint32(c.env.ID)}
	b.Flow = f.Key
	if f.Key.Flow >= 0 {
		b.From, b.To = c.env.Ends(f.Key.Flow)
	}
	b.Code, b.DeltaF = c.settings.Compute, c.settings.DeltaF
	if b.Code == rocc.AtSwitch {
		b.Rate = c.fair.Rate()
	} else {
		b.Inputs, b.DeltaQ, b.Law = c.inputs, c.settings.DeltaQ, c.law
	}
	m.TOS = uint8(c.settings.DSCP) << 2
	c.messages++
	c.env.Send(m)
}

// AppendGauges implements congestion.Point.
func (c *point) AppendGauges(now units.Time, _ congestion.Queue, values []float64) []float64 {
	return append(values, float64(c.fair.FairRate()), float64(c.table.Len(now)), float64(c.fair.GainDivisor()), float64(c.messages))
}
