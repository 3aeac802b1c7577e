package flowtable

import (
	"math/bits"

	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// afd is AFD-FT, the flow table of AFD (Pan, Breslau, Prabhakar and Shenker, "Approximate
// Fairness through Differential Dropping", CCR 2003).
//
// This is from memory. AFD keeps a shadow buffer of the headers of sampled packets; once it
// is full, each sample takes the place of a random one. What counts is how many packets a
// flow has there, which is its share of the traffic. AFD-FT has these counts alone: a sample
// increments that of its flow, and, in place of the packet that would be overwritten, the
// count of a random flow is decremented. A flow whose count comes to 0 is forgotten.
//
// Our choices: the flow to decrement is drawn in proportion to the counts, which is exactly
// what overwriting a random packet does; packets are sampled whatever their length; a flow
// becomes known when its count is 2. Nothing ages while no packets come.
type afd struct {
	store
	sampler
	size   int // of the shadow buffer that there would be, in packets
	sum    int // of all counts
	counts weights
	slots  []*entry
}

// Arrive implements Table.
func (t *afd) Arrive(_ units.Time, p *packet.Packet) {
	if !t.take() || !Counts(p) {
		return
	}
	if t.sum == t.size {
		t.change(t.slots[t.counts.find(t.rand.IntN(t.sum))], -1)
	}
	e := t.find(p)
	if e == nil {
		e = t.add(p)
		if e.slot == len(t.slots) {
			t.slots = append(t.slots, e)
		}
	}
	t.change(e, 1)
}

// change increments or decrements a count.
func (t *afd) change(e *entry, by int) {
	before := e.count
	e.count += by
	t.sum += by
	t.counts.add(e.slot, by)
	switch {
	case e.count == 0:
		t.forget(e)
	case before == 1 && e.count == 2:
		t.known.push(e)
	case before == 2 && e.count == 1:
		t.known.remove(e)
	}
}

// Depart implements Table. It changes nothing: samples alone count.
func (*afd) Depart(units.Time, *packet.Packet) {}

// Feedback implements Table.
func (t *afd) Feedback(_ units.Time, tell func(f *Flow)) { t.tell(tell) }

// Len implements Table.
func (t *afd) Len(units.Time) int { return t.known.n }

// weights draws from numbered things by their weights: a Fenwick tree (Software: Practice
// and Experience, 1994), whose sums take a logarithm of steps.
type weights []int32

// newWeights is for n things that weigh nothing.
func newWeights(n int) weights { return make(weights, n+1) }

// add makes a thing heavier.
func (w weights) add(i, by int) {
	for i++; i < len(w); i += i & -i {
		w[i] += int32(by)
	}
}

// find is the thing that x falls on when they lie in a row. x is from 0 to below their sum.
func (w weights) find(x int) int {
	at := 0
	for step := 1 << (bits.Len(uint(len(w)-1)) - 1); step > 0; step /= 2 {
		if at+step < len(w) && int(w[at+step]) <= x {
			at += step
			x -= int(w[at])
		}
	}
	return at
}
