package flowtable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// queued implements Queued and, with linger, Recent. It is bounded by the queue, as a flow
// has a packet there. With a short queue and many flows, a flow that sends may have no
// packet in the queue at the instant of the feedback: Recent covers it too.
type queued struct {
	store
	linger bool // a flow stays known until the end of an interval in which it had a packet
}

// OnArrival implements Table.
func (t *queued) OnArrival(_ units.Time, p *packet.Packet) {
	if !CountsPacket(p) {
		return
	}
	e := t.findFlow(p)
	if e == nil {
		e = t.addFlow(p)
		t.known.Push(&e.known, e)
	}
	e.count++
	e.seen = t.linger
}

// OnDeparture implements Table.
func (t *queued) OnDeparture(_ units.Time, p *packet.Packet) {
	if !CountsPacket(p) {
		return
	}
	e := t.findFlow(p)
	if e == nil || e.count == 0 {
		return
	}
	if e.count--; e.count == 0 && !e.seen {
		t.removeFlow(e)
	}
}

// EachFlow implements Table.
func (t *queued) EachFlow(_ units.Time, tell func(f *Flow)) {
	t.eachFlow(tell)
	if t.linger {
		for e := range t.known.All() {
			if e.seen = false; e.count == 0 {
				t.removeFlow(e)
			}
		}
	}
	t.freeMemory()
}

// Len implements Table.
func (t *queued) Len(units.Time) int { return t.known.Len() }
