package flowtable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// bounded implements Bounded. No flow gets less than Fmin, so at most Fmax/Fmin flows use a
// link, and a table of that size holds them. The paper leaves open the age and what happens
// when the table is full.
//
// A new flow always finds room: in a full table it replaces the flow that has been silent
// longest, even if that is only since this instant. So with too many flows each is known
// some of the time, and none is left out forever. Packets in the queue make no difference:
// at a port that is paused for longer than the age, all flows are forgotten.
type bounded struct {
	store
	size  int
	age   units.Time
	quiet queue.List[entry] // all flows, the longest silent first
}

// Arrive implements Table.
func (t *bounded) Arrive(now units.Time, p *packet.Packet) {
	if !Counts(p) {
		return
	}
	t.forgetOld(now)
	e := t.find(p)
	if e == nil {
		if t.flows.n == t.size {
			t.end(t.quiet.First())
		}
		e = t.add(p)
		t.known.Push(&e.known, e)
	} else {
		t.quiet.Remove(&e.quiet)
	}
	e.last = now
	t.quiet.Push(&e.quiet, e)
}

// forgetOld ends the flows that have been silent for the age.
func (t *bounded) forgetOld(now units.Time) {
	for e := t.quiet.First(); e != nil && now-e.last >= t.age; e = t.quiet.First() {
		t.end(e)
	}
}

// end removes a flow from all structures.
func (t *bounded) end(e *entry) {
	t.quiet.Remove(&e.quiet)
	t.removeFlow(e)
}

// Depart implements Table. It does nothing: only arrivals count.
func (*bounded) Depart(units.Time, *packet.Packet) {}

// Feedback implements Table.
func (t *bounded) Feedback(now units.Time, tell func(f *Flow)) {
	t.forgetOld(now)
	t.eachFlow(tell)
	t.rest()
}

// Len implements Table.
func (t *bounded) Len(now units.Time) int {
	n := t.known.Len()
	for e := t.quiet.First(); e != nil && now-e.last >= t.age; e = t.quiet.Next(&e.quiet) {
		n--
	}
	return n
}
