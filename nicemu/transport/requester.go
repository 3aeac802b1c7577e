package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// maxMessage is the longest message (§9.3.3).
const maxMessage = 1 << 31

// infinite is the RNR retry count that means no limit (§9.7.5.2.8).
const infinite = 7

// requester is the sending side of a queue pair: its send queue, in which work requests get PSNs in
// order, and the state of these PSNs.
type requester struct {
	queue    queue.FIFO[sendWQE] // not yet completed
	numbered int                 // how many have PSNs: the oldest

	stream                  // of the request packets
	free        PSN         // the first unused
	near        int         // position of locate's last result
	fetches     int         // READs and atomics under way
	inFlight    units.Bytes // payload in the window, each byte once
	maxInFlight units.Bytes // limit of inFlight; 0 means no limit

	rnrTimer units.Time // nothing is sent before; units.Never if not
	unready  bool       // an RNR NAK has arrived, and nothing was acknowledged since
	rnrTries uint8      // left

	responses *responseReceiver // of IRN

	old [atomicLen]byte // result of an atomic, before it goes to memory
}

// PostSend adds a work request to the send queue. In the error states it is
// flushed at once.
func (q *QP) PostSend(wr *SendWR) error {
	if err := q.CheckRequest(wr); err != nil {
		return err
	}
	if q.req.queue.Len() >= q.config.MaxSend {
		return ErrQueueFull
	}
	w := q.req.queue.PushReused()
	sgl, inline := append(w.SGL[:0], wr.SGL...), append(w.Inline[:0], wr.Inline...)
	*w = sendWQE{SendWR: *wr}
	w.SGL, w.Inline = sgl, inline
	if q.bus != nil {
		q.bus.recordPost()
	}

	n := memory.ListLength(sgl) + uint64(len(inline))
	switch {
	case wr.Op.isLocal():
	case n > maxMessage || q.config.Service == roce.UD && n > uint64(q.pathMTU()):
		w.fault = cq.LocLenErr
	case wr.Op.fetchesData() && q.attr.MaxRdAtomic == 0:
		w.fault = cq.LocQPOpErr
	default:
		w.length, w.packets = uint32(n), q.packetsFor(uint32(n))
		if wr.Op.isAtomic() {
			w.packets = 1
		}
		if q.keepsDisordered() && wr.Op.fetchesData() {
			// The request is a packet, and the response has separate PSNs.
			if w.packets > windowLimit/2 {
				w.fault = cq.LocLenErr
			}
			w.packets = 1
		}
	}
	if q.state == qp.Err || q.state == qp.SQE {
		q.flushSends()
		return nil
	}
	q.completeLocal()
	return nil
}

// CheckRequest returns the reason why the queue pair does not take a work request, if there is one; a full
// queue is not reported.
func (q *QP) CheckRequest(wr *SendWR) error {
	c := &q.config
	switch {
	case q.state < qp.RTS:
		return ErrState
	case wr.Op > LocalInvalidate,
		c.Domain != nil,
		!q.isReliable() && (wr.Op.fetchesData() || wr.Op == SendInvalidate),
		c.Service == roce.UD && !wr.Op.isSend():
		return ErrOp
	case len(wr.Inline) > c.MaxInline, len(wr.Inline) > 0 && (wr.Op.fetchesData() || len(wr.SGL) > 0):
		return ErrInline
	case wr.Op.isAtomic() && memory.ListLength(wr.SGL) != atomicLen:
		return ErrAtomic
	}
	return memory.CheckCount(wr.SGL, c.MaxSGE)
}

// nextRequest finds the next request packet, if the requester may send.
func (q *QP) nextRequest() (psn PSN, w *sendWQE, ok bool) {
	r := &q.req
	if r.queue.Len() == 0 || q.state != qp.RTS && q.state != qp.SQD || r.rnrTimer != units.Never {
		return 0, nil, false
	}
	psn = r.next
	if r.sender != nil {
		if psn, ok = r.sender.Next(r.psnWindow()); !ok {
			return 0, nil, false
		}
	}
	if psn != r.next {
		w = r.requestOf(psn)
		return psn, w, w.fault == cq.Success
	}
	if r.next == r.free && !r.numberNext() {
		return 0, nil, false
	}
	w = r.queue.At(r.numbered - 1)
	if w.fault != cq.Success || psn == w.first && !q.mayBegin(w) {
		return 0, nil, false
	}
	if r.maxInFlight > 0 && r.inFlight > 0 && r.inFlight+q.payloadLen(w, psn) > r.maxInFlight {
		return q.chooseProbe()
	}
	n := uint32(1)
	if w.Op == Read {
		n = w.packets
	}
	if q.keepsDisordered() && w.Op.fetchesData() && r.responses.free.From(r.responses.expected) > windowLimit/2 {
		return 0, nil, false
	}
	return psn, w, r.psnWindow().Len()+n <= windowLimit
}

// chooseProbe chooses the newest packet, to be sent again, if the window is full and no outstanding
// packet asks for an acknowledgement: the window has shrunk since they were sent, and nothing would
// open it again. Retransmitted packets ask for one.
func (q *QP) chooseProbe() (psn PSN, w *sendWQE, ok bool) {
	r := &q.req
	if r.awaitsAnswer() {
		return 0, nil, false
	}
	psn = r.next.Add(roce.PSNMask)
	w = r.requestOf(psn)
	return psn, w, w.fault == cq.Success
}

// fillsWindow reports whether a packet is the newest and leaves no room in the window for the next one of
// its message, if there is one.
func (q *QP) fillsWindow(w *sendWQE, psn PSN) bool {
	r := &q.req
	return psn.Add(1) == r.next && r.inFlight+q.payloadLen(w, r.next) > r.maxInFlight
}

// SetWindow limits the payload of SENDs and WRITEs sent and not acknowledged; 0 means no limit, as
// after a reset. A single packet may be longer, and retransmissions are not held up. The packet
// that fills the window asks for an acknowledgement.
func (q *QP) SetWindow(n units.Bytes) { q.req.maxInFlight = n }

// FailOffer fails the work request on offer, which the caller cannot send, with a status.
func (q *QP) FailOffer(s cq.Status) {
	if kind, _, _, w := q.chooseNext(); kind == Request {
		w.fault = s
		q.completeLocal()
	}
}

// numberNext assigns PSNs to the next work request (§9.7.3).
func (r *requester) numberNext() bool {
	if r.numbered == r.queue.Len() || r.newestFails() {
		return false
	}
	w := r.queue.At(r.numbered)
	if w.fault != cq.Success || w.Op.isLocal() {
		return false
	}
	r.numbered++
	w.first = r.free
	r.free = r.free.Add(w.packets)
	if r.responses != nil {
		r.responses.numberResponse(w)
	}
	return true
}

// newestFails reports whether the newest work request that has begun will fail.
func (r *requester) newestFails() bool {
	return r.numbered > 0 && r.queue.At(r.numbered-1).fault != cq.Success
}

// mayBegin reports whether a message may begin: not while the queue drains, not before it and its
// data have come from the host, not past a fence, not beyond the READs and atomics that the peer
// can hold (§9.7.3, §10.8.3).
func (q *QP) mayBegin(w *sendWQE) bool {
	switch {
	case q.state != qp.RTS || q.mustHold(w):
		return false
	case q.req.fetches == 0:
		return true
	case w.Flags&Fence != 0:
		return false
	}
	return !w.Op.fetchesData() || q.req.fetches < int(q.attr.MaxRdAtomic)
}

// requestOf finds the work request that a PSN of the window belongs to.
func (r *requester) requestOf(psn PSN) *sendWQE {
	has := func(i int) bool {
		w := r.queue.At(i)
		return psn.From(w.first) < w.packets
	}
	for i := r.near; i < min(r.near+2, r.numbered); i++ {
		if has(i) {
			r.near = i
			return r.queue.At(i)
		}
	}
	base := r.queue.First().first
	low, high := 0, r.numbered-1
	for low < high {
		mid := (low + high + 1) / 2
		if r.queue.At(mid).first.From(base) <= psn.From(base) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	r.near = low
	return r.queue.At(low)
}

// endOf returns the first PSN after the work request that a PSN of the window belongs to.
func (q *QP) endOf(psn PSN) PSN {
	w := q.req.requestOf(psn)
	return w.first.Add(w.packets)
}

// emitRequest makes the request packet of a PSN and counts it as sent.
func (q *QP) emitRequest(now units.Time, w *sendWQE, psn PSN, p *roce.Packet) bool {
	r := &q.req
	if f := q.makeSegment(w, psn, p); f != memory.OK {
		w.fault = f.Status(memory.Local)
		q.completeLocal()
		return false
	}
	covers := uint32(1)
	if w.Op == Read {
		covers = w.packets - psn.From(w.first)
	}
	again := psn != r.next
	if again {
		q.counters.Retransmitted++
		r.urge = r.urge || !r.awaitsAnswer() // it may be long until the next packet that asks
	} else {
		if w.Op.fetchesData() && psn == w.first {
			r.fetches++
		}
		if r.una == r.next {
			r.moved = now
		}
		if b := r.responses; b != nil && (w.Op == SendInvalidate || w.Op.isAtomic()) {
			b.barrier, b.barred = w.first.Add(w.packets-1), true
		}
		r.next = r.next.Add(covers)
		r.inFlight += units.Bytes(p.Length)
	}
	if q.flow.timed {
		r.stamps.recordSent(psn, now, again, r.psnWindow())
	}
	if f := q.config.Feedback; f != nil {
		f.OnSent(now, Sent{PSN: psn, Payload: units.Bytes(p.Length), Again: again})
	}
	if r.sender == nil {
		q.completeUnacked(w)
		return true
	}
	r.sender.OnSent(r.psnWindow(), psn, covers)
	if !p.BTH.AckReq {
		_, more := r.sender.Next(r.psnWindow()) // if not, only an answer can open the window again
		p.BTH.AckReq = !more || r.maxInFlight > 0 && q.fillsWindow(w, psn)
	}
	q.timeAnswer(now, p, psn.Add(covers))
	if q.localOperation() != nil {
		q.completeLocal()
	}
	return true
}

// completeUnacked counts the packet just sent as complete, as UC and UD do (§9.8.2, §9.8.3).
func (q *QP) completeUnacked(w *sendWQE) {
	r := &q.req
	r.una, r.inFlight = r.next, 0
	if r.next == w.first.Add(w.packets) {
		q.completeOldest(cq.Success)
		q.completeLocal()
	}
}

// timeAnswer starts the ACK timer, if it is not running, and records which answer a packet asks
// for.
func (q *QP) timeAnswer(now units.Time, p *roce.Packet, end PSN) {
	r := &q.req
	if r.ackSince == units.Never || !r.awaitsAnswer() {
		q.startTimer(now)
	}
	if r.urge && q.isReliable() {
		p.BTH.AckReq, r.urge = true, false
	}
	if p.BTH.AckReq && (!r.awaitsAnswer() || r.requestedTo.Before(end)) {
		r.requestedTo = end
	}
}

// startTimer starts the ACK timer, or stops it if nothing is outstanding or an RNR NAK
// keeps the queue pair from sending (§9.7.6.1.3).
func (q *QP) startTimer(now units.Time) {
	r := &q.req
	r.ackSince = units.Never
	if r.rnrTimer == units.Never {
		r.restartTimer(now)
	}
}

// ackDeadline returns when the ACK timer expires.
func (q *QP) ackDeadline() units.Time { return q.req.timerDeadline(AckTimeout(q.attr.Timeout)) }

// handleTimeout handles the expiry of the ACK timer. If no answer was requested and there is more to
// send, the peer has nothing to answer yet: at a low rate there is a long time between packets that
// ask. Then the next one asks, and only if none leaves for the same time again is something wrong.
func (q *QP) handleTimeout(now units.Time) {
	if r := &q.req; !r.awaitsAnswer() && !r.urge {
		if _, _, more := q.nextRequest(); more {
			r.urge, r.ackSince = true, now
			return
		}
	}
	q.counters.LocalAckTimeoutErr++
	if q.countRetry(now) {
		q.req.sender.OnExpiry(q.req.psnWindow())
		q.reportLoss(now, true)
		q.sendAgain(now)
	}
}

// reportLoss reports packets that will be sent again.
func (q *QP) reportLoss(now units.Time, timeout bool) {
	if f := q.config.Feedback; f != nil {
		payload := q.req.inFlight
		if q.keepsDisordered() {
			payload = min(payload, units.Bytes(q.pathMTU())) // the others may have arrived
		}
		f.OnLost(now, Lost{Payload: payload, Timeout: timeout})
	}
}

// sendAgain records that packets that asked for an answer will be sent again.
func (q *QP) sendAgain(now units.Time) {
	q.req.requestedTo = q.req.una
	q.startTimer(now)
}

// endRNRWait ends the wait after an RNR NAK.
func (q *QP) endRNRWait(now units.Time) {
	q.req.rnrTimer = units.Never
	q.req.moved = now
	q.startTimer(now)
}

// countRetry counts a retry; after too many, or too long without progress, it fails the oldest work
// request and returns false (§9.9.2).
func (q *QP) countRetry(now units.Time) bool {
	r := &q.req
	timeout := r.sender.RetryTime(q.attr.RetryCount, AckTimeout(q.attr.Timeout))
	if timeout > 0 && now-r.moved < timeout {
		return true
	}
	if timeout > 0 || r.retries == 0 {
		q.counters.ReqTransportRetriesExceeded++
		q.failOldest(cq.RetryExcErr)
		return false
	}
	r.retries--
	return true
}

// completeOldest takes the oldest work request off the queue.
func (q *QP) completeOldest(s cq.Status) {
	r := &q.req
	w := r.queue.First()
	q.chunks.dropMessage(w.first)
	if w.Op.fetchesData() && s == cq.Success {
		r.fetches--
	}
	if s != cq.Success || w.Flags&Signaled != 0 || q.config.SignalAll {
		c := cq.Completion{ID: w.ID, Status: s, Opcode: wcOf(w.Op), QP: q.config.Number}
		if w.Op.fetchesData() && s == cq.Success {
			c.ByteLen = w.length
		}
		q.config.SendCQ.CompleteRequest(c, false)
	}
	if s != cq.Success {
		q.counters.ReqCQEError++
	}
	if s == cq.WRFlushErr {
		q.counters.ReqCQEFlushError++
	}
	r.queue.DropFirst()
	if q.bus != nil {
		q.bus.removeOldest()
	}
	r.numbered = max(0, r.numbered-1)
	r.near = max(0, r.near-1)
	if b := r.responses; b != nil {
		b.passed, b.near = max(0, b.passed-1), max(0, b.near-1)
	}
}

// underWay reports whether the oldest message has begun.
func (q *QP) underWay() bool {
	r := &q.req
	return r.numbered > 0 && r.next != r.queue.First().first
}

// failOldest completes the oldest work request with an error. An RC or XRC queue pair goes to
// the error state, others have an error of the send queue only (§10.3.1).
func (q *QP) failOldest(s cq.Status) {
	q.completeOldest(s)
	if q.isReliable() {
		q.toError()
		q.dropReplies()
		return
	}
	q.state = qp.SQE
	q.flushSends()
}

func (q *QP) flushSends() {
	for q.req.queue.Len() > 0 {
		q.completeOldest(cq.WRFlushErr)
	}
	r := &q.req
	r.una, r.free = r.next, r.next
	r.numbered, r.near, r.fetches, r.inFlight = 0, 0, 0, 0
	r.ackSince, r.rnrTimer = units.Never, units.Never
	if b := r.responses; b != nil {
		b.clearExpected()
	}
}
