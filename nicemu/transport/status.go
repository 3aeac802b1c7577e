package transport

import "github.com/weftlab/weft/sim/units"

// Status is the state of a queue pair, apart from its attributes and counters.
type Status struct {
	// Of the requester.
	Window      Window      // sent and not acknowledged; empty for UC and UD
	Posted      int         // work requests that are posted and not completed
	InFlight    units.Bytes // payload of SENDs and WRITEs in the window
	Fetching    int         // READs and atomics under way
	Retries     uint8       // left until a timeout or a NAK fails
	RNRRetries  uint8       // left until an RNR NAK fails; ignored if the limit is 7
	AckDeadline units.Time  // when the local ACK timer expires; units.Never while it does not run
	RNRDeadline units.Time  // until when an RNR NAK keeps it from sending; units.Never if none does

	// Of the responder.
	Expected PSN    // the next PSN; meaningless for UD
	MSN      uint32 // messages done, 24 bits
	Receives int    // posted to its own receive queue and not begun
	Replying int    // READs and atomics whose response is not sent whole; with IRN, not acknowledged whole

	Bitmaps Bitmaps // of its loss recovery, if any
}

// Bitmaps are the bitmaps that a loss recovery that keeps packets needs in a NIC: Count bitmaps of
// Bits bits for each queue pair (§6.1 of the paper on IRN).
type Bitmaps struct {
	Count, Bits int
	Kept        int // packets kept out of order now
}

// Bytes returns the size of all of them.
func (b Bitmaps) Bytes() int { return b.Count * b.Bits / 8 }

// recoveryBitmaps returns the bitmaps of a loss recovery that has some.
func (q *QP) recoveryBitmaps() (b Bitmaps) {
	r, ok := q.req.sender.(interface{ Bitmaps() (count, bits int) })
	if !ok {
		return b
	}
	b.Count, b.Bits = r.Bitmaps()
	b.Kept = q.resp.buffer.n + q.req.responses.buffer.n
	return b
}

// IsBusy reports whether the queue pair has work requests that are not completed, or READs and
// atomics to respond to.
func (q *QP) IsBusy() bool { return q.req.queue.Len() > 0 || q.resp.replies > 0 }

// QueuedBytes returns the payload of the work requests of the send queue that are not completed.
func (q *QP) QueuedBytes() (n units.Bytes) {
	for i := range q.req.queue.Len() {
		n += units.Bytes(q.req.queue.At(i).length)
	}
	return n
}

// Status returns the current status. The call changes nothing.
func (q *QP) Status() Status {
	r := &q.req
	return Status{
		Window: r.psnWindow(), Posted: r.queue.Len(), InFlight: r.inFlight, Fetching: r.fetches, Retries: r.retries, RNRRetries: r.rnrTries,
		AckDeadline: q.ackDeadline(), RNRDeadline: r.rnrTimer,
		Expected: q.resp.expected, MSN: q.resp.msn, Receives: q.receives.Len(), Replying: int(q.resp.replies),
		Bitmaps: q.recoveryBitmaps(),
	}
}
