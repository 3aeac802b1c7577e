package sim

import "github.com/weftlab/weft/sim/units"

// Due is the time of the earliest timer that is armed, units.Never when none
// is. Unlike Next it is exact, because it clears away what is stale before that,
// as Run does on its way, where a call would cost every event. It must not be
// called by a handler.
func (e *Engine) Due() units.Time {
	q := &e.queue
	for q.n > 0 {
		first := q.a[root]
		s := &e.sources[first.id]
		switch {
		case first.at != s.queued: // stale
			q.pop()
		case s.due == units.Never:
			s.queued = units.Never
			q.pop()
		case s.due > first.at: // the deadline has moved
			s.queued = s.due
			q.replace(entry{s.due, first.id})
		default:
			return first.at
		}
	}
	return units.Never
}
