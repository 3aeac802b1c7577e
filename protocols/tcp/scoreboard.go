package tcp

import "github.com/weftlab/weft/sim/units"

// A flow's data is cut into segments once: segment k has the payload from k*full on, and
// the last one has the FIN as well. So the sender knows a segment by its number, and what
// it keeps of one is a record in a ring, from the first that is not acknowledged to the
// last that was sent.

// record is what the sender knows of a segment that it has sent.
type record struct {
	at    units.Time // when it was last sent
	state state
}

// state is what became of a segment.
type state uint8

const (
	sacked  state = 1 << iota // it has arrived
	lost                      // it is taken for lost
	resent                    // it was sent again since it was taken for lost
	twice                     // it was ever sent again
	limited                   // it was sent when there was not always something to send
)

// flies tells whether a segment is taken to be on its way.
func (s state) flies() bool { return s&sacked == 0 && (s&lost == 0 || s&resent != 0) }

// waits tells whether it is to be sent again.
func (s state) waits() bool { return s&(sacked|lost|resent) == lost }

// departure is what the sampler of delivery rates remembers of a segment that it has sent.
type departure struct {
	delivered units.Bytes // by then
	since     units.Time  // when that had been delivered
	first     units.Time  // when the first segment of the sample was sent
}

// scoreboard is what is under way.
type scoreboard struct {
	ring       []record    // its length is a power of two
	departures []departure // beside ring; nil where nobody samples

	una, nxt int64 // segments: the first that is not acknowledged, the next new one
	high     int64 // one beyond the highest that has arrived
	again    int64 // no segment before it waits to be sent again

	flying  units.Bytes // payload of the segments that fly
	waiting int32       // segments that wait to be sent again
	arrived int32       // segments that are sacked and not acknowledged in order
}

// firstRing is how many records a flow begins with: an initial window of ten, and as many
// that its acknowledgements let go before the ring grows.
const firstRing = 32

func (b *scoreboard) at(k int64) *record      { return &b.ring[k&int64(len(b.ring)-1)] }
func (b *scoreboard) left(k int64) *departure { return &b.departures[k&int64(len(b.ring)-1)] }
func (b *scoreboard) outstanding() int64      { return b.nxt - b.una }
func (b *scoreboard) reset(sample bool) {
	ring, departures := b.ring, b.departures
	if ring == nil {
		ring = make([]record, firstRing)
	}
	switch {
	case !sample:
		departures = nil
	case len(departures) != len(ring):
		departures = make([]departure, len(ring))
	}
	*b = scoreboard{ring: ring, departures: departures}
}

// push makes room for a new segment.
func (b *scoreboard) push() *record {
	if b.outstanding() == int64(len(b.ring)) {
		b.grow()
	}
	b.nxt++
	r := b.at(b.nxt - 1)
	*r = record{}
	return r
}

// grow doubles the ring.
func (b *scoreboard) grow() {
	n := int64(len(b.ring))
	ring := make([]record, 2*n)
	for k := b.una; k < b.nxt; k++ {
		ring[k&(2*n-1)] = b.ring[k&(n-1)]
	}
	b.ring = ring
	if b.departures != nil {
		departures := make([]departure, 2*n)
		for k := b.una; k < b.nxt; k++ {
			departures[k&(2*n-1)] = b.departures[k&(n-1)]
		}
		b.departures = departures
	}
}

// resentFlying is how many segments were sent again since they were taken for lost, and fly.
func (b *scoreboard) resentFlying() (n int32) {
	for k := b.una; k < b.nxt; k++ {
		if b.at(k).state&(sacked|resent) == resent {
			n++
		}
	}
	return n
}

// firstWaiting is the first segment that is to be sent again; there is one.
func (b *scoreboard) firstWaiting() int64 {
	for b.again = max(b.again, b.una); !b.at(b.again).state.waits(); b.again++ {
	}
	return b.again
}
