package congestion

import (
	"math"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// ethernetFrame is a frame of the usual MTU.
const ethernetFrame units.Bytes = wire.EthernetHeader + 1500

// codel has the state of RFC 8289 §5.3 under its names. The RFC's loop drops
// packets until it has one to send; here each packet is judged in a separate call.
type codel struct {
	Passive
	CoDel
	longest units.Bytes // frame so far, instead of the interface's MTU

	firstAbove units.Time // an interval after packets began to wait too long; 0 if they do not
	dropping   bool
	dropNext   units.Time
	count      int // drops and marks since dropping began
	lastCount  int // count when it began
	// The last packet was dropped at dropNext: the time of the next drop is
	// computed from there if the next packet is late as well.
	dropped bool
}

func (c *codel) OnEnqueue(_ units.Time, _ Queue, p *packet.Packet) packet.Fate {
	c.longest = max(c.longest, p.Size)
	return packet.Fine
}

func (c *codel) OnDequeue(now units.Time, q Queue, p *packet.Packet) packet.Fate {
	late := c.isLate(now, q, p)
	if c.dropped && late {
		c.dropNext = c.nextDrop(c.dropNext)
	}
	c.dropped = false
	switch {
	case !late:
		c.dropping = false
		return packet.Fine
	case !c.dropping:
		// If dropping ended recently, start with the rate that controlled the queue
		// then (RFC 8289 §5.5).
		since := c.count - c.lastCount
		c.count = 1
		if since > 1 && now-c.dropNext < 16*c.Interval {
			c.count = since
		}
		c.dropping, c.lastCount = true, c.count
		c.dropNext = c.nextDrop(now)
		return markPacket(p, c.NotECT)
	case now < c.dropNext:
		return packet.Fine
	}
	c.count++
	fate := markPacket(p, c.NotECT)
	if fate.IsDrop() {
		c.dropped = true
	} else {
		c.dropNext = c.nextDrop(c.dropNext)
	}
	return fate
}

// AppendGauges implements Point.
func (c *codel) AppendGauges(_ units.Time, _ Queue, values []float64) []float64 {
	return append(values, gauge.BoolValue(c.dropping), float64(c.count))
}

// isLate reports whether packets have waited too long for an interval: the RFC's
// ok_to_drop.
func (c *codel) isLate(now units.Time, q Queue, p *packet.Packet) bool {
	switch {
	case now-p.At < c.Target || q.Bytes <= c.longest:
		c.firstAbove = 0
	case c.firstAbove == 0:
		c.firstAbove = now + c.Interval
	default:
		return now >= c.firstAbove
	}
	return false
}

// nextDrop returns the time of the drop after one at t, by the control law of RFC 8289
// §5.2.
func (c *codel) nextDrop(t units.Time) units.Time {
	return t + units.Time(float64(c.Interval)/math.Sqrt(float64(c.count)))
}
