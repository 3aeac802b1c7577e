// Package sched chooses which of a port's class queues sends next: strict
// priority, deficit weighted round robin (DWRR), or strict over DWRR (the
// transmission selection of IEEE 802.1Q §8.6.8). It is pure and allocates
// nothing.
package sched

import (
	"math/bits"

	"github.com/weftlab/weft/sim/units"
)

// count is how many queues there are: class.Count.
const count = 8

// Scheduler chooses among the queues of a port, numbered by priority.
//
// Queues without a weight are strict: the highest number goes first, and all of
// them before the queues with a weight. Those take turns in the order of their
// numbers by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): a
// turn brings credit in proportion to the weight, packets use it up, and what
// does not suffice for the next packet stays for the next turn. The credit of
// a queue that becomes empty is lost.
//
// A queue that has packets but may not send, because PFC pauses it, keeps its
// credit and gets no more: when it returns it finishes the turn in which it
// was paused before it is given credit again.
type Scheduler struct {
	credit  [count]units.Bytes // that a turn brings; 0 is strict
	deficit [count]units.Bytes // credit not yet used
	strict  uint8              // the queues without a weight
	owed    uint8              // the queues whose deficit may be other than 0
	turn    uint8              // whose turn it is
}

// New makes the scheduler of a port. weights has the weights by priority, 0 is
// strict. quantum is the credit for a unit of weight in each round. Times the
// smallest weight it should be no less than the longest packet on the wire:
// then every turn can send and Next takes constant time. A smaller one, of at
// least one byte, gives the same shares but takes several rounds for a packet.
func New(weights [8]int, quantum units.Bytes) Scheduler {
	s := Scheduler{turn: count - 1}
	for i, w := range weights {
		if w == 0 {
			s.strict |= 1 << i
		}
		s.credit[i] = units.Bytes(w) * max(quantum, 1)
	}
	return s
}

// Next gives the number of the queue that sends next. ready has a bit for each
// queue that has a packet and may send it, and is not 0; backlogged one for
// each that has a packet, ready or not. first has the length on the wire of
// the first packet of each queue that is ready.
//
// The caller sends that packet and charges it by Sent. When it asks again
// instead, because it dropped the packet, no credit is lost or won.
func (s *Scheduler) Next(ready, backlogged uint8, first *[8]units.Bytes) int {
	for gone := s.owed &^ backlogged; gone != 0; gone &= gone - 1 {
		s.deficit[bits.TrailingZeros8(gone)] = 0
	}
	s.owed &= backlogged

	if strict := ready & s.strict; strict != 0 {
		return bits.Len8(strict) - 1
	}
	if t := s.turn & (count - 1); ready>>t&1 != 0 && s.deficit[t] >= first[t] {
		return int(t)
	}
	for {
		t := after(ready, s.turn) & (count - 1)
		s.turn = t
		// Credit that suffices is left from a turn that a pause cut short.
		if s.deficit[t] < first[t] {
			s.deficit[t] += s.credit[t]
			s.owed |= 1 << t
		}
		if s.deficit[t] >= first[t] {
			return int(t)
		}
	}
}

// Sent charges a queue for a packet of size bytes on the wire.
func (s *Scheduler) Sent(queue int, size units.Bytes) {
	if s.strict>>queue&1 == 0 {
		s.deficit[queue] -= size
		s.owed |= 1 << queue
	}
}

// after gives the next queue of a set, which is not empty, behind queue t, in a
// circle.
func after(set, t uint8) uint8 {
	behind := bits.RotateLeft8(set, -int(t)-1)
	return (t + 1 + uint8(bits.TrailingZeros8(behind))) % count
}
