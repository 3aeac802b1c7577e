package flowtable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// bubble implements BubbleCache (Ros-Giralt, Commike, Maji and Veeraraghavan, "High Speed
// Elephant Flow Detection Under Partial Information", ISNCC 2018, arXiv 1701.01683).
//
// The abstract says that it samples packets at a rate that follows the traffic's cutoff: the
// lowest rate at which the elephants still stand out. The rest is from memory: flows are in a
// cache in which those with more samples rise, and housekeeping removes inactive ones and
// sets the rate. Our choices:
//
//   - A sample increments the count of its flow, which then swaps places with the flow above
//     it, if that has fewer. A new flow enters at the bottom; in a full cache it replaces the
//     flow there.
//   - Housekeeping runs once per age, with a feedback. It forgets flows without a sample in
//     that age, and halves the counts of the others, so that an elephant that becomes a mouse
//     sinks.
//   - The paper finds the cutoff by the statistics of the samples. We use the size of the
//     cache instead: the rate is halved if the cache was too small for the flows sampled in
//     an age, and doubled, up to every packet, if they took less than a quarter. So there are
//     at least Size/4 samples in an age, and a flow with a share of 8/Size of the packets has
//     two of them.
//   - A flow is known while its count is 2 or more and its last sample is not older than the
//     age.
type bubble struct {
	store
	sampler
	size     int
	age      units.Time
	order    []*entry // highest count first; an entry's slot is its index
	next     units.Time
	overflow bool // a flow was evicted for another since the last housekeeping
}

// bubbleKnown is the number of samples at which a flow becomes known.
const bubbleKnown = 2

// OnArrival implements Table.
func (t *bubble) OnArrival(now units.Time, p *packet.Packet) {
	if !t.shouldSample() || !CountsPacket(p) {
		return
	}
	e := t.findFlow(p)
	if e == nil {
		if n := len(t.order); n == t.size {
			t.removeFlow(t.order[n-1])
			t.order = t.order[:n-1]
			t.overflow = true
		}
		e = t.addFlow(p)
		e.slot = len(t.order)
		t.order = append(t.order, e)
	}
	e.last = now
	if e.count++; e.count == bubbleKnown {
		t.known.Push(&e.known, e)
	}
	if above := e.slot - 1; above >= 0 && t.order[above].count < e.count {
		t.placeEntry(t.order[above], e.slot)
		t.placeEntry(e, above)
	}
}

// placeEntry puts an entry at a position in the order.
func (t *bubble) placeEntry(e *entry, at int) { t.order[at], e.slot = e, at }

// OnDeparture implements Table. It does nothing: only samples count.
func (*bubble) OnDeparture(units.Time, *packet.Packet) {}

// EachFlow implements Table.
func (t *bubble) EachFlow(now units.Time, tell func(f *Flow)) {
	for e := range t.known.All() {
		if t.isActive(now, e) {
			tell(&e.Flow)
		}
	}
	if now >= t.next {
		t.next = now + t.age
		t.removeInactive(now)
		t.tuneSampling()
	}
}

// Len implements Table.
func (t *bubble) Len(now units.Time) int {
	n := 0
	for e := range t.known.All() {
		if t.isActive(now, e) {
			n++
		}
	}
	return n
}

// isActive reports whether a flow was sampled within the age.
func (t *bubble) isActive(now units.Time, e *entry) bool { return now-e.last < t.age }

// removeInactive forgets inactive flows and halves the counts of the others, which keeps their order.
func (t *bubble) removeInactive(now units.Time) {
	kept := t.order[:0]
	for _, e := range t.order {
		if !t.isActive(now, e) {
			t.removeFlow(e)
			continue
		}
		if e.count /= 2; e.count < bubbleKnown {
			t.known.Remove(&e.known)
		}
		e.slot = len(kept)
		kept = append(kept, e)
	}
	t.order = kept
}

// tuneSampling sets the sampling rate.
func (t *bubble) tuneSampling() {
	switch {
	case t.overflow:
		t.each = min(2*t.each, maxSample)
	case len(t.order) < t.size/4:
		t.each = max(t.each/2, 1)
	}
	t.overflow = false
}
