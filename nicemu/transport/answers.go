package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// answers is the sending end of the responses to READs and atomics of IRN (§5.1): they
// have PSNs of their own, and the requester acknowledges each, so the responder has a
// window and a timer for them as a requester has for its packets.
type answers struct {
	stream
	free PSN // the first that no response has

	// A refusal waits until all responses in front of it have arrived: an error ends the
	// queue pair, and with it what would send them again.
	refused bool
	after   PSN // of the responses
	refusal refusal
}

// refusal is what ends a reliable connection because of a request.
type refusal struct {
	psn      PSN
	syndrome uint8
	status   cq.Status
	event    qp.Event
}

// follows tells whether the response that a READ or atomic asks for has the PSNs behind
// those in front of it.
func (a *answers) follows(p *roce.Packet) bool {
	return a == nil || !a.waiting() || PSN(p.Selective.PSN) == a.free
}

// drop forgets the responses.
func (a *answers) drop() {
	if a == nil {
		return
	}
	a.una, a.next = a.free, a.free
	a.ackSince, a.refused = units.Never, false
	a.sender.Reset()
}

// waiting tells whether a requester has not acknowledged a response yet.
func (a *answers) waiting() bool { return a != nil && a.una != a.free }

// rememberAnswer puts a READ or atomic in line for its response. One that MaxDestRdAtomic
// has no room for says that the requester has the response to the oldest.
func (q *QP) rememberAnswer(p *roce.Packet, f fetched) {
	r := &q.resp
	for r.fetches.n >= int(q.attr.MaxDestRdAtomic) {
		old := r.fetches.at(0)
		q.release(old.first.Add(old.packets))
	}
	a := r.answers
	f.first, f.request = PSN(p.Selective.PSN), r.expected
	if !a.waiting() { // as after it was made
		a.una, a.next = f.first, f.first
	}
	a.free = f.first.Add(f.packets)
	r.msn = (r.msn + 1) & roce.PSNMask
	f.msn = r.msn
	*r.fetches.push() = f
	r.replies++
	q.bus.fetch(&f)
	r.plain, r.expected, r.ackDue = r.expected, r.expected.Add(1), true
}

// speaks tells whether there is something to say of requests.
func (r *responder) speaks() bool { return r.ackDue || r.nak != 0 || r.kept.owes() }

// nextAnswer is nextResponse of IRN: acknowledgements and responses have no order.
func (q *QP) nextAnswer() (Kind, *fetched) {
	if q.resp.speaks() || q.req.brought.due() {
		return Control, nil
	}
	if !q.resp.answers.waiting() {
		return Nothing, nil
	}
	switch f := q.answer(); {
	case f == nil || q.bus.awaits(f):
		return Nothing, nil
	case f.atomic:
		return Control, f
	default:
		return Response, f
	}
}

// answer finds the response to send next, if any.
func (q *QP) answer() *fetched {
	a := q.resp.answers
	psn, ok := a.sender.Next(a.window())
	if !ok || psn == a.free || a.refused && !psn.Before(a.after) {
		return nil
	}
	r := &q.resp
	for i := range r.fetches.n {
		if f := r.fetches.at(i); psn.From(f.first) < f.packets {
			f.at = psn.From(f.first)
			return f
		}
	}
	return nil
}

// answered notes that the packet of a response that answer has found was sent.
func (q *QP) answered(now units.Time, f *fetched) {
	a := q.resp.answers
	psn := f.next()
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
	a.sender.Sent(a.window(), psn, 1)
	if a.ackSince == units.Never {
		a.start(now)
	}
}

// readAck takes an acknowledgement of responses: which one is expected, and which one it
// is for.
func (q *QP) readAck(now units.Time, p *roce.Packet) {
	a := q.resp.answers
	was, upto, seen := a.una, psnOf(p), PSN(p.Selective.PSN)
	if n := upto.From(was); n > 0 && n <= a.window().Len() {
		q.release(upto)
		a.moved = now
		a.start(now)
		a.sender.Acked(a.window())
	}
	if upto.Before(seen) && seen != a.una && seen.From(a.una) < a.window().Len() {
		q.counters.PacketSeqErr++
		if a.sender.Refused(a.window(), NakSelective, seen) {
			q.lostAnswers(now, false)
		}
	}
	q.refuseInTurn()
}

// release forgets the responses in front of a PSN: they have arrived.
func (q *QP) release(upto PSN) {
	r := &q.resp
	r.answers.una = upto
	if r.answers.next.Before(upto) {
		r.answers.next = upto
	}
	for r.fetches.n > 0 {
		f := r.fetches.at(0)
		if upto.Before(f.first.Add(f.packets)) {
			return
		}
		q.chunks.forgetRead(f.first)
		r.fetches.pop()
		r.replies--
	}
}

// lostAnswers tells of responses that will be sent again.
func (q *QP) lostAnswers(now units.Time, timeout bool) {
	a := q.resp.answers
	if f := q.config.Feedback; f != nil {
		f.Lost(now, Lost{Timeout: timeout})
	}
	a.start(now)
}

// answersDeadline is when the timer of the responses expires.
func (q *QP) answersDeadline() units.Time {
	if a := q.resp.answers; a != nil {
		return a.deadline(AckTimeout(q.attr.Timeout))
	}
	return units.Never
}

// answersTimeout is the end of that timer. A responder gives up without a word: a
// requester that lives gives up too.
func (q *QP) answersTimeout(now units.Time) {
	a := q.resp.answers
	q.counters.LocalAckTimeoutErr++
	if now-a.moved >= a.sender.Patience(q.attr.RetryCount, AckTimeout(q.attr.Timeout)) {
		a.una, a.next, a.ackSince = a.free, a.free, units.Never
		a.sender.Reset()
		q.resp.fetches.clear()
		q.resp.replies = 0
		q.refuseInTurn()
		return
	}
	a.sender.Expired(a.window())
	q.lostAnswers(now, true)
}

// refuseLater puts a refusal behind the responses in front of a PSN of theirs.
func (a *answers) refuseLater(after PSN, r refusal) {
	if !a.refused || after.Before(a.after) {
		a.refused, a.after, a.refusal = true, after, r
	}
}

// refuseInTurn refuses what waited for responses to arrive.
func (q *QP) refuseInTurn() {
	if a := q.resp.answers; a.refused && !a.una.Before(a.after) {
		a.refused = false
		q.refuseNow(a.refusal)
	}
}

// denyAnswer refuses a READ whose memory is not there any more.
func (q *QP) denyAnswer(f *fetched, fault memory.Fault) {
	if fault == memory.Gone {
		q.die()
		return
	}
	q.resp.answers.refuseLater(f.first, denial(f.request, fault))
	q.refuseInTurn()
}
