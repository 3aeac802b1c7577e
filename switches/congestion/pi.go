package congestion

import (
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// pi needs no timer: the queue length only changes when a packet arrives or leaves,
// so pi can process the elapsed periods then. An idle queue costs nothing.
type pi struct {
	Passive
	PI
	rand   *rand.Rand
	p      float64     // probability of a mark
	before units.Bytes // length at the end of the last period
	next   units.Time  // end of this one
}

func (c *pi) OnEnqueue(now units.Time, q Queue, p *packet.Packet) packet.Fate {
	c.catchUp(now, q.Bytes)
	if c.rand.Float64() >= c.p {
		return packet.Fine
	}
	return markPacket(p, c.NotECT)
}

func (c *pi) OnDequeue(now units.Time, q Queue, p *packet.Packet) packet.Fate {
	c.catchUp(now, q.Bytes+p.Size)
	return packet.Fine
}

func (c *pi) OnRemoved(now units.Time, q Queue, p *packet.Packet, _ packet.Fate) {
	c.catchUp(now, q.Bytes+p.Size)
}

// AppendGauges implements Point. It processes the elapsed periods in a copy, so that it
// changes nothing.
func (c *pi) AppendGauges(now units.Time, q Queue, values []float64) []float64 {
	x := *c
	x.catchUp(now, q.Bytes)
	return append(values, x.p)
}

// catchUp processes the periods until now, in which the queue had the given length.
func (c *pi) catchUp(now units.Time, length units.Bytes) {
	if now < c.next {
		return
	}
	periods := (now-c.next)/c.Every + 1
	c.next += periods * c.Every
	c.advanceProbability(length, 1)
	c.advanceProbability(length, periods-1)
}

// advanceProbability advances the probability by some periods. The result is the same on every
// processor: a conversion keeps the compiler from fusing product and sum (Go
// specification, "Floating-point operators").
func (c *pi) advanceProbability(length units.Bytes, periods units.Time) {
	off := float64(length-c.Target) / float64(c.Target) * float64(periods)
	grown := float64(length-c.before) / float64(c.Target)
	c.p += float64(float64(c.Alpha)*off) + float64(float64(c.Beta)*grown)
	c.p = min(max(c.p, 0), 1)
	c.before = length
}
