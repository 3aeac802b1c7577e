// Package sim orders the events of a fabric: an engine has one queue of timed
// events, and is driven by virtual time (Run) or by a wall clock (package wall).
// Nothing in it knows which.
//
// An engine and everything registered with it belong to one goroutine.
//
// Each handler has one entry in the heap. Moving its deadline later costs nothing: the
// entry comes up early and is put back. Moving it earlier pushes a new one. There is no
// global sequence of arming, so the order at one instant depends neither on which timer
// was armed first nor on what else shares the engine.
//
// Packets are processed by handlers. A Process is a program in straight-line Go, for code
// that drives a fabric from outside. NewRand gives each user of random numbers its own
// stream.
package sim

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// Handler is something with a timer: a port, a link, a source of traffic.
type Handler interface {
	// Fire is called when the timer is due; now is the due time, not the time at
	// which the processor handles it.
	Fire(now units.Time)
}

// Prefetcher is a Handler that can prefetch the memory that its next Fire needs
// (package prefetch).
type Prefetcher interface{ Prefetch() }

// Engine fires timers in order of time. Timers due at the same time fire in
// the order in which they were registered, so a run does not depend on the order in
// which they were armed. Arrivals fire among each other in a fair order, after timers
// registered before the first of them and before those registered later. Processes resume
// after all of them.
type Engine struct {
	now         units.Time
	queue       heap
	sources     []source
	orders      []uint32 // of the timers, as in Timer
	fired       uint64
	hasArrivals bool

	processes *processes // nil until the first is started
}

// source is the soft timer of one handler. The heap may hold several entries
// for it; only one with at == queued counts, the others are stale.
type source struct {
	handler Handler
	due     units.Time // when it fires; Never when disarmed
	queued  units.Time // time of its valid entry in the heap
}

// Timer belongs to one handler and is either disarmed or due at one time.
// The zero Timer is not usable.
type Timer struct {
	engine *Engine
	id     uint32 // place in sources
	order  uint32 // firstRank, lastRank or an arrival's salt, see rankOf
}

// NewTimer registers h. Timers cannot be removed: register only handlers that live
// as long as the fabric.
func (e *Engine) NewTimer(h Handler) Timer {
	if e.hasArrivals {
		return e.registerTimer(h, lastRank)
	}
	return e.registerTimer(h, firstRank)
}

func (e *Engine) registerTimer(h Handler, order uint32) Timer {
	e.sources = append(e.sources, source{handler: h, due: units.Never, queued: units.Never})
	e.orders = append(e.orders, order)
	t := Timer{e, uint32(len(e.sources) - 1), order}
	if e.processes != nil {
		return e.processes.giveWay(t, h)
	}
	return t
}

// entryAt returns the entry of the timer in the queue for a time.
func (t Timer) entryAt(at units.Time) entry {
	return entry{at, rankOf(t.order, at)<<rankOffset | uint64(t.id)}
}

// Arm sets the timer to at, earlier or later than before. A time in the past means now.
func (t Timer) Arm(at units.Time) {
	e := t.engine
	s := &e.sources[t.id]
	if at < e.now {
		at = e.now
	}
	s.due = at
	// An early entry also serves a later due time: when it comes up it is put back.
	// So postponing a deadline costs nothing.
	if at < s.queued {
		s.queued = at
		e.queue.pushEntry(t.entryAt(at))
	}
}

// Disarm keeps the timer from firing until it is armed again.
func (t Timer) Disarm() { t.engine.sources[t.id].due = units.Never }

// DueTime returns when the timer will fire, units.Never when it is disarmed.
func (t Timer) DueTime() units.Time { return t.engine.sources[t.id].due }

// Now returns the time of the event being handled, or of the last one.
func (e *Engine) Now() units.Time { return e.now }

// FiredEvents returns the number of events handled so far.
func (e *Engine) FiredEvents() uint64 { return e.fired }

// AdvanceTo moves the engine's time forward to t, for example when input from outside
// arrives at t; events due before t must have been run.
func (e *Engine) AdvanceTo(t units.Time) {
	if t > e.now {
		e.now = t
	}
}

// Next returns the time of the earliest event, units.Never when there is none. It
// may be early: an entry whose timer was disarmed still counts.
func (e *Engine) Next() units.Time { return e.queue.topEntry().at }

// RunTo fires the timers due before at and, at that time, those that precede the timer
// fence, which is no arrival. It leaves the engine at the point where fence would fire.
func (e *Engine) RunTo(at units.Time, fence Timer) {
	e.Run(at-1, math.MaxInt)
	for stop := fence.entryAt(at).id; e.NextDue() == at && e.queue.topEntry().id < stop; {
		e.Run(at, 1)
	}
}

// Run fires the timers due up to and including limit, but at most max events, and
// returns how many it fired. Fewer than max means that no events are left up to
// limit. It does not move time beyond the last event.
func (e *Engine) Run(limit units.Time, max int) int {
	n := 0
	q := &e.queue
	for n < max && q.n > 0 {
		first := q.a[root]
		if first.at > limit {
			break
		}
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
			s.due, s.queued = units.Never, units.Never
			e.now = first.at
			q.hole = true
			s.handler.Fire(first.at)
			if q.hole {
				q.hole = false
				q.popEntry()
			}
			n++
		}
	}
	e.fired += uint64(n)
	return n
}

// fewest is the number of pending events from which Prefetch pays off: with fewer, an
// event fires almost as soon as its memory is requested.
const fewest = 3

// Prefetch prefetches the memory of the handlers that fire up to and including limit, so
// that the processor waits for all of it at once and not for each line in turn. It has no
// other effect.
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
			if h, ok := e.sources[uint32(x.id)].handler.(Prefetcher); ok {
				h.Prefetch()
			}
		}
	}
}
