package sim

import "github.com/weftlab/weft/sim/units"

// NextDue returns the time of the earliest armed timer, units.Never if there is none.
// Unlike Next it is exact, because it removes stale entries before that timer. Run
// does the same inline, since a call would cost time for every event. Handlers must
// not call Due.
func (e *Engine) NextDue() units.Time {
	q := &e.queue
	for q.n > 0 {
		first := q.a[root]
		s := &e.sources[uint32(first.id)]
		switch {
		case first.at != s.queued: // stale
			q.popEntry()
		case s.due == units.Never:
			s.queued = units.Never
			q.popEntry()
		case s.due > first.at: // the deadline has moved
			s.queued = s.due
			q.replaceTop(e.moveTo(first, s.due))
		default:
			return first.at
		}
	}
	return units.Never
}
