package port

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
)

// Settings of queues that change during a run: limits, weights, thresholds of pauses, and those
// of congestion points that allow it. Packets that wait stay where they are, and what they find
// is judged by the new settings from the next packet on.

// ClassSettings returns the settings of class number i, by ascending priority, with its current
// limit, alpha and weight.
func (p *Port) ClassSettings(i int) class.Class { return p.classes.settings[i] }

// SetLimit changes the limit of the queue of a plain port.
func (p *Port) SetLimit(limit units.Bytes) { p.limit = limit }

// SetClass changes the limit, alpha and weight of class number i, by ascending priority, to
// those of c.
func (p *Port) SetClass(i int, c class.Class) {
	k := p.classes
	s := &k.settings[i]
	s.Limit, s.Alpha = c.Limit, c.Alpha
	k.Buffer.SetQueue(p.Index, s.Priority, s.Limit, s.Alpha)
	if k.queues[i].limit = s.Limit; s.Limit == 0 {
		k.queues[i].limit = k.Buffer.Size()
	}
	if s.Weight != c.Weight {
		s.Weight = c.Weight
		var weights [class.Count]int
		for _, s := range k.settings {
			weights[s.Priority] = s.Weight
		}
		k.sched.SetWeights(weights, p.dwrrQuantum(&weights))
	}
}

// Point returns the congestion point of class number i, of a plain port for -1; nil without one.
func (p *Port) Point(i int) congestion.Point {
	if i < 0 {
		return p.point
	}
	return p.classes.queues[i].point
}

// PauseThreshold returns when the port asks its peer for a pause of class number i
// (buffer.Buffer.Pause).
func (p *Port) PauseThreshold(i int) (xoff units.Bytes, alpha float64, offset units.Bytes) {
	return p.classes.Buffer.Pause(uint16(p.Index), p.classes.settings[i].Priority)
}

// SetPauseThreshold changes it; with global PAUSE that of the whole port.
func (p *Port) SetPauseThreshold(i int, xoff units.Bytes, alpha float64, offset units.Bytes) {
	p.classes.Buffer.SetPause(uint16(p.Index), p.classes.settings[i].Priority, xoff, alpha, offset)
}
