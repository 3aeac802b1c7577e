package port

import (
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// ticker is the timer of a congestion point.
type ticker struct {
	point congestion.Point
	view  func(now units.Time) congestion.Queue
	timer sim.Timer
	next  units.Time // time for which it is armed; units.Never if it is not
}

// newTicker returns a point whose first tick is at the start of the run. view returns
// its queue.
func newTicker(e *sim.Engine, make func(wake func(units.Time)) congestion.Point, view func(units.Time) congestion.Queue) congestion.Point {
	t := &ticker{view: view, next: units.Never}
	if t.point = make(t.wakeAt); t.point == nil {
		return nil
	}
	t.timer = e.NewTimer(t)
	t.wakeAt(0)
	return t.point
}

// wakeAt sets the time of the next tick.
func (t *ticker) wakeAt(at units.Time) {
	switch t.next = at; {
	case t.timer == (sim.Timer{}): // the point is still being made, and ticks at 0
	case at == units.Never:
		t.timer.Disarm()
	default:
		t.timer.Arm(at)
	}
}

func (t *ticker) Fire(now units.Time) {
	t.next = units.Never
	if next := t.point.OnTimer(now, t.view(now)); next < t.next {
		t.wakeAt(next)
	}
}
