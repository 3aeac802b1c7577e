package flowtable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// maxTrapCount is the largest counter of ElephantTrap. Counters are small, and the pointer
// passes an elephant at most eight times after it has gone.
const maxTrapCount = 255

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

// OnArrival implements Table.
func (t *trap) OnArrival(_ units.Time, p *packet.Packet) {
	if !t.shouldSample() || !CountsPacket(p) {
		return
	}
	e := t.findFlow(p)
	switch {
	case e != nil:
		if e.count == 0 {
			t.known.Push(&e.known, e)
		}
		e.count = min(e.count+1, maxTrapCount)
		return
	case t.flows.n == t.size:
		t.evictFlow()
	}
	e = t.addFlow(p)
	if e.slot == len(t.slots) {
		t.slots = append(t.slots, e)
	}
}

// evictFlow makes room in a full table. It terminates, because every counter reaches 0.
func (t *trap) evictFlow() {
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

// OnDeparture implements Table. It does nothing: only samples count.
func (*trap) OnDeparture(units.Time, *packet.Packet) {}

// EachFlow implements Table.
func (t *trap) EachFlow(_ units.Time, tell func(f *Flow)) { t.eachFlow(tell) }

// Len implements Table.
func (t *trap) Len(units.Time) int { return t.known.Len() }
