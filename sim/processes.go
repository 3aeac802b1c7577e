package sim

import (
	stdheap "container/heap"
	"container/list"

	"github.com/weftlab/weft/sim/units"
)

// processes holds the processes of one engine. They share one timer, so their number
// and lifetimes cost the engine nothing.
type processes struct {
	engine  *Engine
	timer   Timer
	queue   turns
	count   uint64    // of turns ever scheduled
	live    list.List // of *Process, in the order of their start
	running *Process  // whose turn it is
	firing  bool
}

func newProcesses(e *Engine) *processes {
	s := &processes{engine: e}
	s.timer = e.registerTimer(s, lastRank)
	return s
}

// Fire resumes the process that is due.
func (s *processes) Fire(units.Time) {
	s.firing = true
	returned := false
	defer func() {
		s.firing = false
		s.armTimer()
		if !returned { // a panic: code that recovers it may run the engine again
			s.engine.queue.siftHole()
		}
	}()
	p := stdheap.Pop(&s.queue).(*Process)
	p.leaveCond() // its timeout has passed
	p.resumeProcess()
	returned = true
}

// timeAfter returns the time d from now.
func (s *processes) timeAfter(d units.Time) units.Time {
	now := s.engine.now
	if d > units.Never-now {
		return units.Never
	}
	return now + max(d, 0)
}

// scheduleTurn gives p a turn at a time, in place of its previous turn, after all turns
// due at the same time.
func (s *processes) scheduleTurn(p *Process, at units.Time) {
	s.count++
	p.at, p.turn = max(at, s.engine.now), s.count
	switch {
	case p.place >= 0:
		stdheap.Fix(&s.queue, p.place)
	case at != units.Never:
		stdheap.Push(&s.queue, p)
	}
	s.armTimer()
}

// cancelTurn removes the turn of p, if any.
func (s *processes) cancelTurn(p *Process) {
	if p.place >= 0 {
		stdheap.Remove(&s.queue, p.place)
		s.armTimer()
	}
}

// armTimer sets the timer to the next turn. While a process has its turn, the timer is
// not touched: the next turn is known only afterwards.
func (s *processes) armTimer() {
	switch {
	case s.firing:
	case len(s.queue) == 0:
		s.timer.Disarm()
	default:
		s.timer.Arm(s.queue[0].at)
	}
}

// giveWay gives the place of the processes' timer to a later handler h, and takes
// the place of t, which is the last.
func (s *processes) giveWay(t Timer, h Handler) Timer {
	e, mine, due := s.engine, s.timer, s.timer.DueTime()
	// Heap entries with the old place are stale now, and harmless if the handler is
	// armed for the same time.
	e.sources[mine.id] = source{handler: h, due: units.Never, queued: units.Never}
	e.sources[t.id].handler = s
	e.orders[mine.id], e.orders[t.id] = t.order, lastRank
	mine.order, t.order = t.order, lastRank
	s.timer = t
	if due != units.Never {
		t.Arm(due)
	}
	return mine
}

// stopAll stops all processes, including those started by their deferred functions.
func (s *processes) stopAll() {
	for x := s.live.Front(); x != nil; {
		p := x.Value.(*Process)
		if p.state == running {
			p.Stop()
			x = x.Next()
			continue
		}
		p.Stop()
		x = s.live.Front() // any may have ended meanwhile
	}
}

// turns is a heap of processes by the time at which they resume.
type turns []*Process

func (q turns) Len() int { return len(q) }

func (q turns) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].turn < q[j].turn
}

func (q turns) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *turns) Push(x any) {
	p := x.(*Process)
	p.place = len(*q)
	*q = append(*q, p)
}

func (q *turns) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.place = -1
	return p
}
