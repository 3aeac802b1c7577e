package links

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// arrival is a packet in flight and its arrival time.
type arrival struct {
	at     units.Time
	packet *packet.Packet
}

// arrivals is a ring of arrivals in order. It stores the times beside the packets:
// packets have long left the processor's cache when they arrive, and so only the
// arriving one is fetched.
type arrivals struct {
	ring       []arrival // a power of two
	head, tail uint32
}

func (a *arrivals) len() int { return int(a.tail - a.head) }

func (a *arrivals) at(i uint32) *arrival { return &a.ring[i&uint32(len(a.ring)-1)] }

// first returns the next arrival. The ring must not be empty.
func (a *arrivals) first() arrival { return *a.at(a.head) }

// fromEnd returns the arrival i places before the last.
func (a *arrivals) fromEnd(i int) arrival { return *a.at(a.tail - 1 - uint32(i)) }

func (a *arrivals) push(x arrival) {
	if a.len() == len(a.ring) {
		a.resize(max(minRing, 2*len(a.ring)))
	}
	*a.at(a.tail) = x
	a.tail++
}

// minRing is the length of the shortest ring that is not empty.
const minRing = 4

// resize moves the arrivals to a ring of n entries, a power of two or 0, that has
// room for them.
func (a *arrivals) resize(n int) {
	ring, used := make([]arrival, n), uint32(0)
	for i := a.head; i != a.tail; i++ {
		ring[used] = *a.at(i)
		used++
	}
	a.ring, a.head, a.tail = ring, 0, used
}

// shrink releases unused memory.
func (a *arrivals) shrink() {
	n := 0
	for n < a.len() {
		n = max(minRing, 2*n)
	}
	if n < len(a.ring) {
		a.resize(n)
	}
}

func (a *arrivals) pop() arrival {
	a.head++
	return *a.at(a.head - 1)
}

// drop removes the last n arrivals.
func (a *arrivals) drop(n int) { a.tail -= uint32(n) }
