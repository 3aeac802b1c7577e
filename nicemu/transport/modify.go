package transport

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Attr are the attributes of a queue pair on its way to RTS. Each transition takes the fields below
// its name (§10.3.1, §11.2.5) and leaves the others.
type Attr struct {
	// RESET to INIT.
	Access memory.Access // remote access rights; RC, UC and XRC targets
	QKey   uint32        // UD

	// INIT to RTR.
	DestQP          uint32      // 24 bits; RC and UC
	RQPSN           PSN         // the peer's first; RC and UC
	PathMTU         units.Bytes // 256, 512, 1024, 2048 or 4096; for UD the port's
	MaxDestRdAtomic uint8       // READs and atomics that the peer may have outstanding; RC
	MinRNRTimer     uint8       // code of roce.RNRTime, 0 to 31; RC

	// RTR to RTS.
	SQPSN       PSN   // the first to send
	Timeout     uint8 // code of AckTimeout, 0 to 31; RC
	RetryCount  uint8 // 0 to 7; RC
	RNRRetry    uint8 // 0 to 7, which has no limit; RC
	MaxRdAtomic uint8 // READs and atomics outstanding; RC
}

// Modify moves the queue pair to another state. Any state can go to RESET, which clears everything,
// and to ERR, which flushes; otherwise the order is INIT, RTR, RTS, and between RTS and SQD. UC and
// UD go from SQE to RTS. An error, which wraps EINVAL, says what is not allowed, and nothing has
// changed.
func (q *QP) Modify(to qp.State, a Attr) error {
	switch from := q.state; {
	case to == qp.Reset:
		q.state = qp.Reset
		q.attr = Attr{}
		q.clearState()
	case to == qp.Err && from != qp.Reset:
		q.toError()
		q.dropReplies()
	case to == qp.Init && (from == qp.Reset || from == qp.Init):
		q.attr.Access, q.attr.QKey = a.Access, a.QKey
		q.state = qp.Init
	case to == qp.RTR && from == qp.Init:
		return q.readyToReceive(a)
	case to == qp.RTS && from == qp.RTR:
		return q.readyToSend(a)
	case to == qp.RTS && (from == qp.RTS || from == qp.SQD || from == qp.SQE):
		q.state = qp.RTS
		q.completeLocal()
	case to == qp.SQD && (from == qp.RTS || from == qp.SQD):
		q.state = qp.SQD
		q.drained = false
		q.completeLocal()
	default:
		return fmt.Errorf("%w: queue pair %d cannot go from %v to %v: the order is RESET, INIT, RTR, RTS; RTS and SQD to each other; SQE to RTS; any but RESET to ERR; any to RESET", syscall.EINVAL, q.config.Number, from, to)
	}
	return nil
}

// AdjustAttributes changes what may change later: in RTR and above Access, QKey and
// MinRNRTimer; in SQD also Timeout, RetryCount, RNRRetry, MaxRdAtomic and
// MaxDestRdAtomic (§11.2.5). Begin with Attr: other fields must be as they are.
func (q *QP) AdjustAttributes(a Attr) error {
	switch {
	case q.state < qp.RTR || q.state == qp.Err:
		return fmt.Errorf("%w: queue pair %d is in %v: before RTR, use Modify to set what Adjust changes", syscall.EINVAL, q.config.Number, q.state)
	case a.MinRNRTimer > 31:
		return errRNRTimer(a)
	}
	next := q.attr
	next.Access, next.QKey, next.MinRNRTimer = a.Access, a.QKey, a.MinRNRTimer
	if q.state == qp.SQD {
		if err := checkRetries(a); err != nil {
			return err
		}
		next.Timeout, next.RetryCount, next.RNRRetry, next.MaxRdAtomic = a.Timeout, a.RetryCount, a.RNRRetry, a.MaxRdAtomic
		next.MaxDestRdAtomic = a.MaxDestRdAtomic
	}
	if next != a {
		return fmt.Errorf("%w: queue pair %d in %v: only Access, QKey and MinRNRTimer can be adjusted, and in SQD Timeout, RetryCount, RNRRetry, MaxRdAtomic and MaxDestRdAtomic", syscall.EINVAL, q.config.Number, q.state)
	}
	if q.state == qp.SQD {
		q.req.retries, q.req.rnrTries = a.RetryCount, a.RNRRetry
	}
	q.attr = a
	return nil
}

// SetRetryCount sets RetryCount, 0 to 7, in any state from RTS on, which no verb does: for a layer that
// learns later that it can do better than retry. Earlier retries count.
func (q *QP) SetRetryCount(count uint8) {
	if q.state < qp.RTS || count > 7 {
		return
	}
	tried := q.attr.RetryCount - q.req.retries
	q.attr.RetryCount = count
	q.req.retries = count - min(count, tried)
}

func errRNRTimer(a Attr) error {
	return fmt.Errorf("%w: RNR timer code is %d: it can be 0 to 31", syscall.EINVAL, a.MinRNRTimer)
}

func checkRetries(a Attr) error {
	switch {
	case a.Timeout > 31:
		return fmt.Errorf("%w: local ACK timeout code is %d: it can be 0 to 31", syscall.EINVAL, a.Timeout)
	case a.RetryCount > 7 || a.RNRRetry > 7:
		return fmt.Errorf("%w: retry counts are %d and %d: they can be 0 to 7", syscall.EINVAL, a.RetryCount, a.RNRRetry)
	}
	return nil
}

func (q *QP) readyToReceive(a Attr) error {
	switch {
	case a.PathMTU < 256 || a.PathMTU > 4096 || a.PathMTU&(a.PathMTU-1) != 0:
		return fmt.Errorf("%w: path MTU is %v: it can be 256, 512, 1024, 2048 or 4096 bytes", syscall.EINVAL, a.PathMTU)
	case a.DestQP > roce.PSNMask || a.RQPSN > roce.PSNMask:
		return fmt.Errorf("%w: destination queue pair %#x or PSN %#x has more than 24 bits", syscall.EINVAL, a.DestQP, a.RQPSN)
	case a.MinRNRTimer > 31:
		return errRNRTimer(a)
	}
	t := &q.attr
	t.DestQP, t.RQPSN, t.PathMTU = a.DestQP, a.RQPSN, a.PathMTU
	t.MaxDestRdAtomic, t.MinRNRTimer = a.MaxDestRdAtomic, a.MinRNRTimer
	q.setMTU(a.PathMTU)
	q.resp.expected, q.resp.plain = a.RQPSN, a.RQPSN.Add(roce.PSNMask)
	if b := q.resp.answers; b != nil {
		b.una, b.next, b.free = a.RQPSN, a.RQPSN, a.RQPSN
	}
	q.state = qp.RTR
	return nil
}

func (q *QP) readyToSend(a Attr) error {
	if a.SQPSN > roce.PSNMask {
		return fmt.Errorf("%w: PSN %#x has more than 24 bits", syscall.EINVAL, a.SQPSN)
	}
	if err := checkRetries(a); err != nil {
		return err
	}
	t := &q.attr
	t.SQPSN, t.Timeout, t.RetryCount = a.SQPSN, a.Timeout, a.RetryCount
	t.RNRRetry, t.MaxRdAtomic = a.RNRRetry, a.MaxRdAtomic
	r := &q.req
	r.una, r.next, r.free, r.requestedTo = a.SQPSN, a.SQPSN, a.SQPSN, a.SQPSN
	r.retries, r.rnrTries = a.RetryCount, a.RNRRetry
	if r.responses != nil {
		r.responses.expected, r.responses.free = a.SQPSN, a.SQPSN
	}
	q.state = qp.RTS
	return nil
}

// toError goes to the error state: posted requests are flushed (§10.3.1).
func (q *QP) toError() {
	if q.state == qp.Err {
		return
	}
	q.state = qp.Err
	q.flushSends()
	q.flushReceives()
	if q.config.Shared != nil {
		q.raiseEvent(qp.QPLastWQEReached)
	}
}

// clearState clears all state except the counters.
func (q *QP) clearState() {
	q.req.queue.Clear()
	q.chunks.clearChunks()
	q.bus.clearPosts()
	// Stamps need not be taken out: that of a PSN that is acknowledged was written when
	// it was sent, or is of a later one.
	requests := stream{sender: q.req.sender, stamps: q.req.stamps, ackSince: units.Never}
	q.req = requester{queue: q.req.queue, stream: requests, rnrTimer: units.Never, responses: q.req.responses}
	if b := q.req.responses; b != nil {
		b.free, b.receives, b.barred = 0, 0, false
		b.clearExpected()
	}
	r := &q.resp
	r.fetches.Clear()
	r.buffer.clearPackets()
	r.answers.dropResponses()
	*r = responder{fetches: r.fetches, recv: r.recv, receiver: r.receiver, buffer: r.buffer, answers: r.answers}
	q.receives.Clear()
	q.turn, q.drained = false, false
	if q.req.sender != nil {
		q.req.sender.Reset()
		q.resp.receiver.Reset()
	}
}
