package flowtable

import (
	"math/bits"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// afd implements AFD-FT, the flow table of AFD (Pan, Breslau, Prabhakar and Shenker,
// "Approximate Fairness through Differential Dropping", CCR 2003).
//
// This is from memory. AFD keeps a shadow buffer of the headers of sampled packets; once it
// is full, each sample overwrites a random one. The number of packets that a flow has there
// measures its share of the traffic. AFD-FT keeps only these counts: a sample increments the
// count of its flow, and instead of overwriting a packet, AFD-FT decrements the count of a
// random flow. A flow whose count reaches 0 is forgotten.
//
// Our choices: the flow to decrement is drawn in proportion to the counts, which is exactly
// what overwriting a random packet does; packets are sampled whatever their length; a flow
// becomes known when its count reaches 2. Nothing ages while no packets arrive.
type afd struct {
	store
	sampler
	size   int // of the shadow buffer that AFD would have, in packets
	sum    int // of all counts
	counts weights
	slots  []*entry
}

// OnArrival implements Table.
func (t *afd) OnArrival(_ units.Time, p *packet.Packet) {
	if !t.shouldSample() || !CountsPacket(p) {
		return
	}
	if t.sum == t.size {
		t.changeCount(t.slots[t.counts.findItem(t.rand.IntN(t.sum))], -1)
	}
	e := t.findFlow(p)
	if e == nil {
		e = t.addFlow(p)
		if e.slot == len(t.slots) {
			t.slots = append(t.slots, e)
		}
	}
	t.changeCount(e, 1)
}

// changeCount increments or decrements a count.
func (t *afd) changeCount(e *entry, by int) {
	before := e.count
	e.count += by
	t.sum += by
	t.counts.addWeight(e.slot, by)
	switch {
	case e.count == 0:
		t.removeFlow(e)
	case before == 1 && e.count == 2:
		t.known.Push(&e.known, e)
	case before == 2 && e.count == 1:
		t.known.Remove(&e.known)
	}
}

// OnDeparture implements Table. It does nothing: only samples count.
func (*afd) OnDeparture(units.Time, *packet.Packet) {}

// EachFlow implements Table.
func (t *afd) EachFlow(_ units.Time, tell func(f *Flow)) { t.eachFlow(tell) }

// Len implements Table.
func (t *afd) Len(units.Time) int { return t.known.Len() }

// weights draws from numbered items by their weights. It is a Fenwick tree (Software:
// Practice and Experience, 1994), which computes sums in logarithmic time.
type weights []int32

// newWeights returns the weights of n items, all 0.
func newWeights(n int) weights { return make(weights, n+1) }

// addWeight adds to the weight of an item.
func (w weights) addWeight(i, by int) {
	for i++; i < len(w); i += i & -i {
		w[i] += int32(by)
	}
}

// findItem returns the item that x falls on when all items lie in a row. x is at least 0 and
// less than the sum of the weights.
func (w weights) findItem(x int) int {
	at := 0
	for step := 1 << (bits.Len(uint(len(w)-1)) - 1); step > 0; step /= 2 {
		if at+step < len(w) && int(w[at+step]) <= x {
			at += step
			x -= int(w[at])
		}
	}
	return at
}
