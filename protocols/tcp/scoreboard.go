package tcp

import "github.com/weftlab/weft/sim/units"

// A flow's data is cut into segments once: segment k has the payload from k*full on, and the
// last one also has the FIN. So the sender identifies a segment by its number, and keeps one
// record for each segment in a ring, from the first unacknowledged one to the last one sent.

// record is the sender's record of a segment that it has sent.
type record struct {
	at    units.Time // when it was last sent
	state state
}

// state is the state of a segment.
type state uint8

const (
	sacked  state = 1 << iota // it has arrived
	lost                      // it is considered lost
	resent                    // it was retransmitted since it was marked lost
	twice                     // it was retransmitted at least once
	limited                   // it was sent while the sender was limited
)

// isInFlight reports whether a segment is considered in flight.
func (s state) isInFlight() bool { return s&sacked == 0 && (s&lost == 0 || s&resent != 0) }

// awaitsResend reports whether a segment waits for retransmission.
func (s state) awaitsResend() bool { return s&(sacked|lost|resent) == lost }

// departure is what the sampler of delivery rates records about a sent segment.
type departure struct {
	delivered units.Bytes // when the segment was sent
	since     units.Time  // when that had been delivered
	first     units.Time  // when the first segment of the sample was sent
}

// scoreboard has the segments in flight.
type scoreboard struct {
	ring       []record    // its length is a power of two
	departures []departure // parallel to ring; nil without sampling

	una, nxt int64 // segments: the first unacknowledged one, the next new one
	high     int64 // one beyond the highest that has arrived
	again    int64 // no segment before it waits for retransmission

	inFlight units.Bytes // payload in flight
	waiting  int32       // segments that wait for retransmission
	arrived  int32       // segments that are sacked but not acknowledged in order
}

// firstRing is the number of records that a flow starts with: room for an initial window of
// ten, and for the segments that its acknowledgements release before the ring grows.
const firstRing = 32

func (b *scoreboard) recordAt(k int64) *record       { return &b.ring[k&int64(len(b.ring)-1)] }
func (b *scoreboard) departureAt(k int64) *departure { return &b.departures[k&int64(len(b.ring)-1)] }
func (b *scoreboard) countOutstanding() int64        { return b.nxt - b.una }
func (b *scoreboard) resetBoard(sample bool) {
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

// pushSegment makes room for a new segment.
func (b *scoreboard) pushSegment() *record {
	if b.countOutstanding() == int64(len(b.ring)) {
		b.growRing()
	}
	b.nxt++
	r := b.recordAt(b.nxt - 1)
	*r = record{}
	return r
}

// growRing doubles the ring.
func (b *scoreboard) growRing() {
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

// resentInFlight returns the number of segments in flight that were retransmitted after they
// were marked lost.
func (b *scoreboard) resentInFlight() (n int32) {
	for k := b.una; k < b.nxt; k++ {
		if b.recordAt(k).state&(sacked|resent) == resent {
			n++
		}
	}
	return n
}

// firstWaiting returns the first segment that waits for retransmission. There is one.
func (b *scoreboard) firstWaiting() int64 {
	for b.again = max(b.again, b.una); !b.recordAt(b.again).state.awaitsResend(); b.again++ {
	}
	return b.again
}
