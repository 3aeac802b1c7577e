package flowtable

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// queued is Queued and, with linger, Recent. It is as large as the queue: a flow takes a
// packet there. Where a queue is short and flows are many, a flow may have no packet there
// at the instant of the feedback, though it sends: Recent tells it as well.
type queued struct {
	store
	linger bool // a flow is known until the end of an interval in which a packet of it came
}

// Arrive implements Table.
func (t *queued) Arrive(_ units.Time, p *packet.Packet) {
	if !Counts(p) {
		return
	}
	e := t.find(p)
	if e == nil {
		e = t.add(p)
		t.known.push(e)
	}
	e.count++
	e.seen = t.linger
}

// Depart implements Table.
func (t *queued) Depart(_ units.Time, p *packet.Packet) {
	if !Counts(p) {
		return
	}
	e := t.find(p)
	if e == nil || e.count == 0 {
		return
	}
	if e.count--; e.count == 0 && !e.seen {
		t.forget(e)
	}
}

// Feedback implements Table.
func (t *queued) Feedback(_ units.Time, tell func(f *Flow)) {
	t.tell(tell)
	if t.linger {
		for e := t.known.first; e != nil; {
			next := t.known.next(e)
			if e.seen = false; e.count == 0 {
				t.forget(e)
			}
			e = next
		}
	}
	t.rest()
}

// Len implements Table.
func (t *queued) Len(units.Time) int { return t.known.n }
