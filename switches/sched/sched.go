// Package sched chooses which of a port's class queues sends next: strict
// priority, deficit weighted round robin (DWRR), or strict over DWRR (the
// transmission selection of IEEE 802.1Q §8.6.8). It is pure and allocates
// nothing.
package sched

import (
	"math/bits"

	"github.com/weftlab/weft/sim/units"
)

// count is the number of queues: class.Count.
const count = 8

// Scheduler chooses among the queues of a port, numbered by priority.
//
// Queues without a weight are strict: the highest number goes first, and all of
// them before the queues with a weight. Those take turns in the order of their
// numbers by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): a turn
// adds credit in proportion to the weight, packets use it up, and credit that does
// not suffice for the next packet remains for the next turn. The credit of a queue
// that becomes empty is lost.
//
// A queue that has packets but must not send, because PFC pauses it, keeps its
// credit and gets no more: when it resumes, it finishes the turn in which it was
// paused before it gets credit again.
type Scheduler struct {
	credit      [count]units.Bytes // credit per turn; 0 means strict
	deficit     [count]units.Bytes // credit not yet used
	strict      uint8              // the queues without a weight
	withDeficit uint8              // the queues whose deficit may be nonzero
	turn        uint8              // whose turn it is
}

// New returns the scheduler of a port. weights has the weights by priority; 0 means
// strict. quantum is the credit per unit of weight in each round. Multiplied by the
// smallest weight, it should be at least the longest packet on the wire: then every
// turn can send and Next takes constant time. A smaller one, of at least one byte,
// gives the same shares but takes several rounds for a packet.
func New(weights [8]int, quantum units.Bytes) Scheduler {
	s := Scheduler{turn: count - 1}
	s.SetWeights(weights, quantum)
	return s
}

// SetWeights changes the weights, as New sets them. A queue that keeps a weight keeps its
// credit.
func (s *Scheduler) SetWeights(weights [8]int, quantum units.Bytes) {
	s.strict = 0
	for i, w := range weights {
		if w == 0 {
			s.strict |= 1 << i
			s.deficit[i] = 0
		}
		s.credit[i] = units.Bytes(w) * max(quantum, 1)
	}
}

// Next returns the number of the queue that sends next. ready has a bit for each
// queue that has a packet and may send it, and is not 0; backlogged has a bit for
// each queue with a packet, ready or not. first has the length on the wire of the
// first packet of each ready queue.
//
// The caller sends that packet and charges it with ChargeQueue. If it calls Next again
// instead, because it dropped the packet, no credit is lost or gained.
func (s *Scheduler) Next(ready, backlogged uint8, first *[8]units.Bytes) int {
	for gone := s.withDeficit &^ backlogged; gone != 0; gone &= gone - 1 {
		s.deficit[bits.TrailingZeros8(gone)] = 0
	}
	s.withDeficit &= backlogged

	if strict := ready & s.strict; strict != 0 {
		return bits.Len8(strict) - 1
	}
	if t := s.turn & (count - 1); ready>>t&1 != 0 && s.deficit[t] >= first[t] {
		return int(t)
	}
	for {
		t := nextAfter(ready, s.turn) & (count - 1)
		s.turn = t
		// Sufficient credit is left over from a turn that a pause cut short.
		if s.deficit[t] < first[t] {
			s.deficit[t] += s.credit[t]
			s.withDeficit |= 1 << t
		}
		if s.deficit[t] >= first[t] {
			return int(t)
		}
	}
}

// ChargeQueue charges a queue for a packet of size bytes on the wire.
func (s *Scheduler) ChargeQueue(queue int, size units.Bytes) {
	if s.strict>>queue&1 == 0 {
		s.deficit[queue] -= size
		s.withDeficit |= 1 << queue
	}
}

// nextAfter returns the next queue after t in a set, cyclically. The set is not empty.
func nextAfter(set, t uint8) uint8 {
	behind := bits.RotateLeft8(set, -int(t)-1)
	return (t + 1 + uint8(bits.TrailingZeros8(behind))) % count
}
