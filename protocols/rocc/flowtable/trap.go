package flowtable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// trapMost is the largest counter of ElephantTrap. Counters are small, and the pointer
// passes an elephant at most eight times after it has gone.
const trapMost = 255

// trap implements ElephantTrap (Lu, Wang, Prabhakar and Bonomi, HOTI 2007).
//
// Packets are sampled. A sample of a flow in the table increments its counter. For a sample
// of another flow, a pointer walks the table: it halves counters that are not below a
// threshold and stops at the first flow whose counter is below. The new flow replaces that
// one, with a counter of 0. So roughly the least frequently used flows leave.
//
// That is from a summary of the paper; that counters are a few bits wide is from memory.
// Our choices: the threshold is 1; a flow is known while its counter is above 0, which
// means that it was sampled again since it entered or since the pointer last halved its
// counter to 0. Nothing ages while no other flows arrive.
type trap struct {
	store
	sampler
	size  int
	slots []*entry
	at    int // the pointer
}

// Arrive implements Table.
func (t *trap) Arrive(_ units.Time, p *packet.Packet) {
	if !t.shouldSample() || !Counts(p) {
		return
	}
	e := t.find(p)
	switch {
	case e != nil:
		if e.count == 0 {
			t.known.Push(&e.known, e)
		}
		e.count = min(e.count+1, trapMost)
		return
	case t.flows.n == t.size:
		t.evict()
	}
	e = t.add(p)
	if e.slot == len(t.slots) {
		t.slots = append(t.slots, e)
	}
}

// evict makes room in a full table. It terminates, because every counter reaches 0.
func (t *trap) evict() {
	for {
		e := t.slots[t.at]
		if t.at++; t.at == len(t.slots) {
			t.at = 0
		}
		if e.count == 0 {
			t.removeFlow(e)
			return
		}
		if e.count /= 2; e.count == 0 {
			t.known.Remove(&e.known)
		}
	}
}

// Depart implements Table. It does nothing: only samples count.
func (*trap) Depart(units.Time, *packet.Packet) {}

// Feedback implements Table.
func (t *trap) Feedback(_ units.Time, tell func(f *Flow)) { t.eachFlow(tell) }

// Len implements Table.
func (t *trap) Len(units.Time) int { return t.known.Len() }
