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

// OnArrival implements Table.
func (t *bounded) OnArrival(now units.Time, p *packet.Packet) {
	if !CountsPacket(p) {
		return
	}
	t.forgetOld(now)
	e := t.findFlow(p)
	if e == nil {
		if t.flows.n == t.size {
			t.endFlow(t.quiet.First())
		}
		e = t.addFlow(p)
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
		t.endFlow(e)
	}
}

// endFlow removes a flow from all structures.
func (t *bounded) endFlow(e *entry) {
	t.quiet.Remove(&e.quiet)
	t.removeFlow(e)
}

// OnDeparture implements Table. It does nothing: only arrivals count.
func (*bounded) OnDeparture(units.Time, *packet.Packet) {}

// EachFlow implements Table.
func (t *bounded) EachFlow(now units.Time, tell func(f *Flow)) {
	t.forgetOld(now)
	t.eachFlow(tell)
	t.freeMemory()
}

// Len implements Table.
func (t *bounded) Len(now units.Time) int {
	n := t.known.Len()
	for e := t.quiet.First(); e != nil && now-e.last >= t.age; e = t.quiet.Next(&e.quiet) {
		n--
	}
	return n
}
