// Package sim orders what happens in a fabric: an engine with one queue of
// timed events, driven by virtual time (Run) or by a wall clock (package
// wall). Nothing in it knows which.
//
// An engine and everything registered with it belong to one goroutine.
package sim

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// Handler is something with a timer: a port, a link, a source of traffic.
type Handler interface {
	// Fire is called when the timer's time has come; now is that time, not
	// the time at which the processor got round to it.
	Fire(now units.Time)
}

// Prefetcher is a Handler that can ask for the memory that its next Fire needs (package
// prefetch).
type Prefetcher interface{ Prefetch() }

// Engine fires timers in order of time. Timers due at the same time fire in
// the order in which they were registered, so a run does not depend on the
// order in which they were armed. Processes go on after all of them.
type Engine struct {
	now     units.Time
	queue   heap
	sources []source
	fired   uint64

	processes *processes // nil until the first is started
}

// source is the soft timer of one handler. The heap may hold several entries
// for it; only one with at == queued counts, the others are stale.
type source struct {
	handler Handler
	due     units.Time // when it is to fire; Never when disarmed
	queued  units.Time // of the entry in the heap that stands for it
}

// Timer belongs to one handler and is either disarmed or due at one time.
// The zero Timer is not usable.
type Timer struct {
	engine *Engine
	id     uint32
}

// NewTimer registers h. Timers cannot be removed: register what lives as long
// as the fabric.
func (e *Engine) NewTimer(h Handler) Timer {
	e.sources = append(e.sources, source{handler: h, due: units.Never, queued: units.Never})
	t := Timer{e, uint32(len(e.sources) - 1)}
	if e.processes != nil {
		return e.processes.giveWay(t, h)
	}
	return t
}

// Arm sets the timer to at, earlier or later than it was set before. A time
// in the past means now.
func (t Timer) Arm(at units.Time) {
	e := t.engine
	s := &e.sources[t.id]
	if at < e.now {
		at = e.now
	}
	s.due = at
	// An entry that is early enough serves a later due time as well: when it
	// comes up it is put back. So pushing a deadline away costs nothing.
	if at < s.queued {
		s.queued = at
		e.queue.push(entry{at, uint64(t.id)})
	}
}

// Disarm makes sure that the timer does not fire until it is armed again.
func (t Timer) Disarm() { t.engine.sources[t.id].due = units.Never }

// Due is when the timer will fire, units.Never when it is disarmed.
func (t Timer) Due() units.Time { return t.engine.sources[t.id].due }

// Now is the time of the event being handled, or of the last one.
func (e *Engine) Now() units.Time { return e.now }

// Fired counts the events handled so far.
func (e *Engine) Fired() uint64 { return e.fired }

// Advance moves the engine's time forward to t, as when something from
// outside arrives at t; events due before t must have been run.
func (e *Engine) Advance(t units.Time) {
	if t > e.now {
		e.now = t
	}
}

// Next is the time of the earliest event, units.Never when there is none. It
// may be early: an entry whose timer was disarmed still counts.
func (e *Engine) Next() units.Time { return e.queue.top().at }

// RunTo fires what is due before at and, at that time, what was registered before
// the timer fence. It leaves the engine where fence would fire.
func (e *Engine) RunTo(at units.Time, fence Timer) {
	e.Run(at-1, math.MaxInt)
	for e.Due() == at && e.queue.top().id < uint64(fence.id) {
		e.Run(at, 1)
	}
}

// Run fires what is due up to and including limit, but at most max events,
// and returns how many it fired. Fewer than max means that nothing is left
// to do up to limit. It does not move time beyond the last event.
func (e *Engine) Run(limit units.Time, max int) int {
	n := 0
	q := &e.queue
	for n < max && q.n > 0 {
		first := q.a[root]
		if first.at > limit {
			break
		}
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
			s.due, s.queued = units.Never, units.Never
			e.now = first.at
			q.hole = true
			s.handler.Fire(first.at)
			if q.hole {
				q.hole = false
				q.pop()
			}
			n++
		}
	}
	e.fired += uint64(n)
	return n
}

// fewest is how many events have to be due for Prefetch to gain anything: with fewer, the
// memory of one has hardly been asked for when it fires.
const fewest = 3

// Prefetch asks for the memory of the handlers that are to fire up to and including limit,
// so that the processor waits for all of it at once and not for each line in turn. It
// changes nothing else.
func (e *Engine) Prefetch(limit units.Time) {
	if e.queue.n < fewest {
		return
	}
	due, entries := 0, e.queue.a[root:root+e.queue.n]
	for _, x := range entries {
		if x.at <= limit {
			due++
		}
	}
	if due < fewest {
		return
	}
	for _, x := range entries {
		if x.at <= limit {
			if h, ok := e.sources[x.id].handler.(Prefetcher); ok {
				h.Prefetch()
			}
		}
	}
}
