package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// answers is the sending end of the responses to READs and atomics of IRN (§5.1). Responses have
// their own PSNs, and the requester acknowledges each, so the responder has a window and a timer
// for them, as a requester has for its packets.
type answers struct {
	stream
	free PSN // the first unused

	// A refusal waits until all earlier responses have arrived: an error ends the queue pair, which
	// could then not retransmit them.
	refused bool
	after   PSN // of the responses
	refusal refusal
}

// refusal is an error that ends a reliable connection because of a request.
type refusal struct {
	psn      PSN
	syndrome uint8
	status   cq.Status
	event    qp.Event
}

// isConsecutive reports whether the response that a READ or atomic asks for has the PSNs right after the
// previous responses.
func (a *answers) isConsecutive(p *roce.Packet) bool {
	return a == nil || !a.areUnacknowledged() || PSN(p.Selective.PSN) == a.free
}

// dropResponses forgets the responses.
func (a *answers) dropResponses() {
	if a == nil {
		return
	}
	a.una, a.next = a.free, a.free
	a.ackSince, a.refused = units.Never, false
	a.sender.Reset()
}

// areUnacknowledged reports whether the requester has yet to acknowledge a response.
func (a *answers) areUnacknowledged() bool { return a != nil && a.una != a.free }

// rememberAnswer queues a READ or atomic for its response. If MaxDestRdAtomic has no room for it,
// the request implies that the requester has the response to the oldest.
func (q *QP) rememberAnswer(p *roce.Packet, f fetched) {
	r := &q.resp
	for r.fetches.Len() >= int(q.attr.MaxDestRdAtomic) {
		old := r.fetches.First()
		q.releaseResponses(old.first.Add(old.packets))
	}
	a := r.answers
	f.first, f.request = PSN(p.Selective.PSN), r.expected
	if !a.areUnacknowledged() { // as after it was made
		a.una, a.next = f.first, f.first
	}
	a.free = f.first.Add(f.packets)
	r.msn = (r.msn + 1) & roce.PSNMask
	f.msn = r.msn
	*r.fetches.PushReused() = f
	r.replies++
	q.bus.fetchData(&f)
	r.plain, r.expected, r.ackDue = r.expected, r.expected.Add(1), true
}

// hasAck reports whether there is an acknowledgement or NAK of requests to send.
func (r *responder) hasAck() bool { return r.ackDue || r.nak != 0 || r.buffer.hasUnsentNACK() }

// nextAnswer is nextResponse for IRN: acknowledgements and responses are not ordered.
func (q *QP) nextAnswer() (Kind, *fetched) {
	if q.resp.hasAck() || q.req.responses.ackIsDue() {
		return Control, nil
	}
	if !q.resp.answers.areUnacknowledged() {
		return Nothing, nil
	}
	switch f := q.findResponse(); {
	case f == nil || q.bus.awaitsData(f):
		return Nothing, nil
	case f.atomic:
		return Control, f
	default:
		return Response, f
	}
}

// findResponse finds the response to send next, if any.
func (q *QP) findResponse() *fetched {
	a := q.resp.answers
	psn, ok := a.sender.Next(a.psnWindow())
	if !ok || psn == a.free || a.refused && !psn.Before(a.after) {
		return nil
	}
	r := &q.resp
	for i := range r.fetches.Len() {
		if f := r.fetches.At(i); psn.From(f.first) < f.packets {
			f.at = psn.From(f.first)
			return f
		}
	}
	return nil
}

// recordResponse records that the packet of a response found by answer was sent.
func (q *QP) recordResponse(now units.Time, f *fetched) {
	a := q.resp.answers
	psn := f.nextPSN()
	if psn == a.next {
		if a.una == a.next {
			a.moved = now
		}
		a.next = psn.Add(1)
	} else if f.atomic {
		q.counters.Retransmitted++
	}
	f.sent = max(f.sent, f.at+1)
	if f.at+1 == f.packets {
		q.chunks.forgetRead(f.first)
	}
	a.sender.OnSent(a.psnWindow(), psn, 1)
	if a.ackSince == units.Never {
		a.restartTimer(now)
	}
}

// readAck handles an acknowledgement of responses: which one is expected, and which one was
// received.
func (q *QP) readAck(now units.Time, p *roce.Packet) {
	a := q.resp.answers
	was, upto, seen := a.una, psnOf(p), PSN(p.Selective.PSN)
	if n := upto.From(was); n > 0 && n <= a.psnWindow().Len() {
		q.releaseResponses(upto)
		a.moved = now
		a.restartTimer(now)
		a.sender.OnAcked(a.psnWindow())
	}
	if upto.Before(seen) && seen != a.una && seen.From(a.una) < a.psnWindow().Len() {
		q.counters.PacketSeqErr++
		if a.sender.OnRefusal(a.psnWindow(), NakSelective, seen) {
			q.lostAnswers(now, false)
		}
	}
	q.refuseInTurn()
}

// releaseResponses drops the responses before a PSN: they have arrived.
func (q *QP) releaseResponses(upto PSN) {
	r := &q.resp
	r.answers.una = upto
	if r.answers.next.Before(upto) {
		r.answers.next = upto
	}
	for r.fetches.Len() > 0 {
		f := r.fetches.First()
		if upto.Before(f.first.Add(f.packets)) {
			return
		}
		q.chunks.forgetRead(f.first)
		r.fetches.DropFirst()
		r.replies--
	}
}

// lostAnswers reports responses that will be sent again.
func (q *QP) lostAnswers(now units.Time, timeout bool) {
	a := q.resp.answers
	if f := q.config.Feedback; f != nil {
		f.OnLost(now, Lost{Timeout: timeout})
	}
	a.restartTimer(now)
}

// answersDeadline returns when the timer of the responses expires.
func (q *QP) answersDeadline() units.Time {
	if a := q.resp.answers; a != nil {
		return a.timerDeadline(AckTimeout(q.attr.Timeout))
	}
	return units.Never
}

// answersTimeout handles the expiry of that timer. A responder gives up silently: a live requester
// gives up too.
func (q *QP) answersTimeout(now units.Time) {
	a := q.resp.answers
	q.counters.LocalAckTimeoutErr++
	if now-a.moved >= a.sender.RetryTime(q.attr.RetryCount, AckTimeout(q.attr.Timeout)) {
		a.una, a.next, a.ackSince = a.free, a.free, units.Never
		a.sender.Reset()
		q.resp.fetches.Clear()
		q.resp.replies = 0
		q.refuseInTurn()
		return
	}
	a.sender.OnExpiry(a.psnWindow())
	q.lostAnswers(now, true)
}

// refuseLater delays a refusal until the responses before a PSN of theirs have arrived.
func (a *answers) refuseLater(after PSN, r refusal) {
	if !a.refused || after.Before(a.after) {
		a.refused, a.after, a.refusal = true, after, r
	}
}

// refuseInTurn sends a refusal that waited for responses to arrive.
func (q *QP) refuseInTurn() {
	if a := q.resp.answers; a.refused && !a.una.Before(a.after) {
		a.refused = false
		q.refuseNow(a.refusal)
	}
}

// denyAnswer refuses a READ whose memory is gone.
func (q *QP) denyAnswer(f *fetched, fault memory.Fault) {
	if fault == memory.Gone {
		q.endWithProgram(f.request)
		return
	}
	q.resp.answers.refuseLater(f.first, refusalFor(f.request, fault))
	q.refuseInTurn()
}
