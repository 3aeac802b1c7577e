package cmnic

import (
	"container/heap"

	"github.com/weftlab/weft/sim/units"
)

// timers is a heap of the connections with a timer, ordered by time and ID.
type timers []*conn

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].due < t[j].due || t[i].due == t[j].due && t[i].id < t[j].id
}
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	x.(*conn).place = len(*t)
	*t = append(*t, x.(*conn))
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	x.place = noTimer
	return x
}

// noTimer is the place of a connection without timer.
const noTimer = -1

// armTimer sets a connection's only timer.
func (c *CM) armTimer(x *conn, at units.Time) {
	x.due = at
	if x.place == noTimer {
		heap.Push(&c.timers, x)
		return
	}
	heap.Fix(&c.timers, x.place)
}

func (c *CM) disarmTimer(x *conn) {
	if x.place != noTimer {
		heap.Remove(&c.timers, x.place)
	}
}

// NextWork returns when DoDueWork has work to do, or units.Never.
func (c *CM) NextWork() units.Time {
	if len(c.timers) == 0 {
		return units.Never
	}
	return c.timers[0].due
}

// DoDueWork does the work due by now: it repeats messages, gives up and forgets.
func (c *CM) DoDueWork(now units.Time) {
	for len(c.timers) > 0 && c.timers[0].due <= now {
		c.expireConnection(now, heap.Pop(&c.timers).(*conn))
	}
}

func (c *CM) expireConnection(now units.Time, x *conn) {
	switch {
	case x.state == TimeWait:
		c.addEvent(x, Event{Kind: TimeWaitExit})
		c.removeConn(x)
	case x.state == Refused || x.state == SIDRREPSent:
		c.removeConn(x)
	case x.left > 0:
		x.left--
		c.sendAgain(x, x.pending)
		c.armTimer(x, now+x.interval)
	default:
		c.giveUp(now, x)
	}
}
