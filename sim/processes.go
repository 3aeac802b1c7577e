package sim

import (
	stdheap "container/heap"
	"container/list"

	"github.com/weftlab/weft/sim/units"
)

// processes are those of one engine. They share one timer, so their number and
// how long they live cost the engine nothing.
type processes struct {
	engine  *Engine
	timer   Timer
	queue   turns
	count   uint64    // of turns that were ever scheduled
	live    list.List // of *Process, in the order of their start
	running *Process  // whose turn it is
	firing  bool
}

func newProcesses(e *Engine) *processes {
	s := &processes{engine: e}
	s.timer = e.NewTimer(s)
	return s
}

// Fire gives its turn to the process that is due.
func (s *processes) Fire(units.Time) {
	s.firing = true
	returned := false
	defer func() {
		s.firing = false
		s.arm()
		if !returned { // a panic: code that recovers it may run the engine again
			s.engine.queue.settle()
		}
	}()
	p := stdheap.Pop(&s.queue).(*Process)
	p.leaveCond() // its time is out
	p.resume()
	returned = true
}

// after is d from now.
func (s *processes) after(d units.Time) units.Time {
	now := s.engine.now
	if d > units.Never-now {
		return units.Never
	}
	return now + max(d, 0)
}

// schedule gives p a turn at a time, in place of the one it had, behind all
// that are due at the same time.
func (s *processes) schedule(p *Process, at units.Time) {
	s.count++
	p.at, p.turn = max(at, s.engine.now), s.count
	switch {
	case p.place >= 0:
		stdheap.Fix(&s.queue, p.place)
	case at != units.Never:
		stdheap.Push(&s.queue, p)
	}
	s.arm()
}

// unschedule takes the turn away that p has, if any.
func (s *processes) unschedule(p *Process) {
	if p.place >= 0 {
		stdheap.Remove(&s.queue, p.place)
		s.arm()
	}
}

// arm sets the timer to the next turn. While a process has its turn it is left
// alone: what comes next is known when that is over.
func (s *processes) arm() {
	switch {
	case s.firing:
	case len(s.queue) == 0:
		s.timer.Disarm()
	default:
		s.timer.Arm(s.queue[0].at)
	}
}

// giveWay gives the timer's place among the others to a handler that comes
// later, and takes t's, which is the last.
func (s *processes) giveWay(t Timer, h Handler) Timer {
	e, mine, due := s.engine, s.timer, s.timer.Due()
	// Entries of the heap with the old place are stale now, and do no harm
	// if the handler is armed for the same time.
	e.sources[mine.id] = source{handler: h, due: units.Never, queued: units.Never}
	e.sources[t.id].handler = s
	s.timer = t
	if due != units.Never {
		t.Arm(due)
	}
	return mine
}

// stopAll stops all, also those that their deferred functions start.
func (s *processes) stopAll() {
	for x := s.live.Front(); x != nil; {
		p := x.Value.(*Process)
		if p.state == running {
			p.Stop()
			x = x.Next()
			continue
		}
		p.Stop()
		x = s.live.Front() // any may have gone meanwhile
	}
}

// turns is a heap of processes by when they go on.
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
