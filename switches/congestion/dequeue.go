package congestion

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// lengthPoint is a point that judges a packet by the length of the queue only.
type lengthPoint interface {
	Adjuster
	OnEnqueue(now units.Time, q Queue, p *packet.Packet) packet.Fate
}

// dequeuePoint judges packets as they leave the queue, as another point judges those that join.
type dequeuePoint struct {
	Passive
	lengthPoint
}

// pointFor returns a point that judges packets as they leave the queue, if atDequeue is
// true, or else p.
func pointFor[P interface {
	Point
	lengthPoint
}](p P, atDequeue bool) Point {
	if atDequeue {
		return &dequeuePoint{lengthPoint: p}
	}
	return p
}

// OnEnqueue lets every packet pass.
func (*dequeuePoint) OnEnqueue(units.Time, Queue, *packet.Packet) packet.Fate { return packet.Fine }

// OnDequeue implements Point.
func (d *dequeuePoint) OnDequeue(now units.Time, q Queue, p *packet.Packet) packet.Fate {
	return d.lengthPoint.OnEnqueue(now, q, p)
}
