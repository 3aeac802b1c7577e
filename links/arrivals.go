package links

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// arrival is a packet under way and when it arrives.
type arrival struct {
	at     units.Time
	packet *packet.Packet
}

// arrivals is a ring of them in order. It has the times beside the packets,
// which have long left the processor's cache when they arrive: so only the one
// that does is fetched.
type arrivals struct {
	ring       []arrival // a power of two
	head, tail uint32
}

func (a *arrivals) len() int { return int(a.tail - a.head) }

func (a *arrivals) at(i uint32) *arrival { return &a.ring[i&uint32(len(a.ring)-1)] }

// first is the one that arrives next; there is one.
func (a *arrivals) first() arrival { return *a.at(a.head) }

// fromEnd is the last one but i.
func (a *arrivals) fromEnd(i int) arrival { return *a.at(a.tail - 1 - uint32(i)) }

func (a *arrivals) push(x arrival) {
	if a.len() == len(a.ring) {
		grown := make([]arrival, max(4, 2*len(a.ring)))
		n := uint32(0)
		for i := a.head; i != a.tail; i++ {
			grown[n] = *a.at(i)
			n++
		}
		a.ring, a.head, a.tail = grown, 0, n
	}
	*a.at(a.tail) = x
	a.tail++
}

func (a *arrivals) pop() arrival {
	a.head++
	return *a.at(a.head - 1)
}

// drop forgets the last n.
func (a *arrivals) drop(n int) { a.tail -= uint32(n) }
