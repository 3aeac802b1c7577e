// Package agenda keeps the pending work of the parts of a machine, such as the queue
// pairs of a NIC or the flows of a limiter, so that one timer serves them all.
package agenda

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// Task is a part of a machine that has work at certain times. It is embedded in
// that part, its owner, and enrolled once.
type Task[O any] struct {
	Owner O
	want  units.Time // when it has work; units.Never if it has none
	entry units.Time // when the agenda wakes it, which may be earlier
	order uint32     // by age, among tasks that are due at the same time
	index int32      // in the agenda plus 1; 0 if it is not there
}

// WantedTime returns when the task has work; units.Never if it has none.
func (k *Task[O]) WantedTime() units.Time { return k.want }

// IsEntered reports whether the task is in the agenda.
func (k *Task[O]) IsEntered() bool { return k.index > 0 }

// Agenda is a heap of tasks by time. Moving a deadline later costs nothing: the task is woken at
// its old time and sets the new one then. The zero Agenda is empty.
type Agenda[O any] struct {
	heap     []*Task[O]
	live     int // tasks that have work
	enrolled uint32
}

// EnrolTask gives a task its owner and its age. Of tasks that are due at the same time, the
// one enrolled first comes first.
func (a *Agenda[O]) EnrolTask(t *Task[O], owner O) {
	a.enrolled++
	t.order, t.Owner, t.want = a.enrolled, owner, units.Never
}

// Next returns when to wake a task; units.Never if none has work, even if old deadlines are left.
func (a *Agenda[O]) Next() units.Time {
	if a.live == 0 {
		return units.Never
	}
	return a.heap[0].entry
}

// WakeAt wakes a task at t, or earlier if an earlier time was requested before; units.Never means that
// it has no work.
func (a *Agenda[O]) WakeAt(k *Task[O], t units.Time) {
	if (k.want == units.Never) != (t == units.Never) {
		a.live++
		if t == units.Never {
			a.live -= 2
		}
	}
	k.want = t
	switch {
	case t == units.Never || k.index > 0 && k.entry <= t:
		return
	case k.index == 0:
		a.heap = append(a.heap, k)
		k.index = int32(len(a.heap))
	}
	k.entry = t
	a.siftUp(int(k.index) - 1)
}

// TakeDue removes and returns a task to be woken by now; nil if there is none.
func (a *Agenda[O]) TakeDue(now units.Time) *Task[O] {
	if a.Next() > now {
		return nil
	}
	k := a.heap[0]
	a.Remove(k)
	return k
}

// Remove removes a task.
func (a *Agenda[O]) Remove(k *Task[O]) {
	a.WakeAt(k, units.Never)
	if k.index == 0 {
		return
	}
	i, last := int(k.index)-1, len(a.heap)-1
	k.index = 0
	moved := a.heap[last]
	a.heap[last] = nil
	a.heap = a.heap[:last]
	if i == last {
		return
	}
	a.putAt(i, moved)
	a.siftDown(i)
	a.siftUp(int(moved.index) - 1)
}

func (a *Agenda[O]) putAt(i int, k *Task[O]) {
	a.heap[i] = k
	k.index = int32(i + 1)
}

func isBefore[O any](x, y *Task[O]) bool {
	return x.entry < y.entry || x.entry == y.entry && x.order < y.order
}

func (a *Agenda[O]) siftUp(i int) {
	k := a.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !isBefore(k, a.heap[parent]) {
			break
		}
		a.putAt(i, a.heap[parent])
		i = parent
	}
	a.putAt(i, k)
}

func (a *Agenda[O]) siftDown(i int) {
	k := a.heap[i]
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			break
		}
		if child+1 < len(a.heap) && isBefore(a.heap[child+1], a.heap[child]) {
			child++
		}
		if !isBefore(a.heap[child], k) {
			break
		}
		a.putAt(i, a.heap[child])
		i = child
	}
	a.putAt(i, k)
}

// Check returns an error if the agenda is out of order, or wrong about what is due. It is
// for the tests of packages that have an agenda.
func (a *Agenda[O]) Check() error {
	due := 0
	for i, k := range a.heap {
		switch {
		case int(k.index) != i+1:
			return fmt.Errorf("a task at place %d of the agenda claims to be at %d", i, k.index-1)
		case i > 0 && isBefore(k, a.heap[(i-1)/2]):
			return fmt.Errorf("the agenda is not a heap at place %d", i)
		case k.want < k.entry:
			return fmt.Errorf("a task is due at %v and woken at %v", k.want, k.entry)
		}
		if k.want != units.Never {
			due++
		}
	}
	if due != a.live {
		return fmt.Errorf("%d tasks of the agenda are due, it reports %d", due, a.live)
	}
	return nil
}

// LiveTasks returns the number of tasks that have work.
func (a *Agenda[O]) LiveTasks() int { return a.live }

// Len returns the number of tasks in the agenda. Some of them may have no work any more.
func (a *Agenda[O]) Len() int { return len(a.heap) }
