package nicemu

import "github.com/weftlab/weft/sim/units"

// task is a part of the NIC that has something due at times. It is embedded in
// what that is.
type task struct {
	want  units.Time // when it has something due; units.Never for not at all
	entry units.Time // when the agenda wakes it, which may be earlier
	order uint32     // among what is due at the same time: age
	index int32      // in the agenda plus 1; 0 if it is not there
	owner sleeper
}

// sleeper is woken up.
type sleeper interface {
	// wake does what is due, and comes back by agenda.at if more will be.
	wake(now units.Time)
}

// agenda is a heap of tasks by time. A deadline that moves later costs nothing:
// the task is woken at its old time and says so then.
type agenda struct {
	heap []*task
	live int // tasks that have something due
	born uint32
}

// enrol gives a task its age.
func (a *agenda) enrol(t *task, owner sleeper) {
	a.born++
	t.order, t.owner, t.want = a.born, owner, units.Never
}

// next is when a task is to be woken; units.Never if none has something due,
// whatever is left of old deadlines.
func (a *agenda) next() units.Time {
	if a.live == 0 {
		return units.Never
	}
	return a.heap[0].entry
}

// at has a task woken at t, or also earlier if that was asked for before;
// units.Never is that it has nothing due.
func (a *agenda) at(k *task, t units.Time) {
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
	a.up(int(k.index) - 1)
}

// due takes out a task that is to be woken by now; nil if there is none.
func (a *agenda) due(now units.Time) *task {
	if a.next() > now {
		return nil
	}
	k := a.heap[0]
	a.remove(k)
	return k
}

// remove takes a task out.
func (a *agenda) remove(k *task) {
	a.at(k, units.Never)
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
	a.put(i, moved)
	a.down(i)
	a.up(int(moved.index) - 1)
}

func (a *agenda) put(i int, k *task) {
	a.heap[i] = k
	k.index = int32(i + 1)
}

func before(x, y *task) bool {
	return x.entry < y.entry || x.entry == y.entry && x.order < y.order
}

func (a *agenda) up(i int) {
	k := a.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !before(k, a.heap[parent]) {
			break
		}
		a.put(i, a.heap[parent])
		i = parent
	}
	a.put(i, k)
}

func (a *agenda) down(i int) {
	k := a.heap[i]
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			break
		}
		if child+1 < len(a.heap) && before(a.heap[child+1], a.heap[child]) {
			child++
		}
		if !before(a.heap[child], k) {
			break
		}
		a.put(i, a.heap[child])
		i = child
	}
	a.put(i, k)
}
