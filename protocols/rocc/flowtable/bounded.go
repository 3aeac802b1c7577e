package flowtable

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// bounded is Bounded. No flow is told less than Fmin, so that there are not more than
// Fmax/Fmin that use a link, and a table of that size holds them. The paper leaves the age
// and what happens when the table is full.
//
// A new flow always finds room: in a full table it takes the place of the one that has been
// silent longest, were it only since this instant. So with too many flows each is known some
// of the time, and none is left out for good. Whether a flow still has packets in the queue
// makes no difference: behind a port that is paused for longer than the age, all are
// forgotten.
type bounded struct {
	store
	size  int
	age   units.Time
	quiet ring // all flows, the one that has been silent longest first
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
			t.end(t.quiet.first)
		}
		e = t.add(p)
		t.known.push(e)
	} else {
		t.quiet.remove(e)
	}
	e.last = now
	t.quiet.push(e)
}

// forgetOld ends the flows that have been silent for the age.
func (t *bounded) forgetOld(now units.Time) {
	for e := t.quiet.first; e != nil && now-e.last >= t.age; e = t.quiet.first {
		t.end(e)
	}
}

// end takes a flow out of everything.
func (t *bounded) end(e *entry) {
	t.quiet.remove(e)
	t.forget(e)
}

// Depart implements Table. It changes nothing: arrivals alone count.
func (*bounded) Depart(units.Time, *packet.Packet) {}

// Feedback implements Table.
func (t *bounded) Feedback(now units.Time, tell func(f *Flow)) {
	t.forgetOld(now)
	t.tell(tell)
	t.rest()
}

// Len implements Table.
func (t *bounded) Len(now units.Time) int {
	n := t.known.n
	for e := t.quiet.first; e != nil && now-e.last >= t.age; e = t.quiet.next(e) {
		n--
	}
	return n
}
