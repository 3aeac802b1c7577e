package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/roce"
)

// responder is the receiving side of a queue pair.
type responder struct {
	expected    PSN
	msn         uint32 // messages done, 24 bits (§9.7.7)
	established bool   // a packet has come

	// The message under way.
	message  message
	skipping bool        // UC: until the next message begins
	taken    bool        // recv holds a receive request
	recv     RecvWR      // which its bytes go to
	placed   uint32      // how many have
	into     memory.Span // what is left of the memory that a WRITE goes to

	// What is to be sent.
	plain   PSN   // the newest SEND or WRITE packet taken
	ackDue  bool  // plain is to be acknowledged
	unacked int   // packets since the last ACK
	nak     uint8 // syndrome of the NAK to send; 0 for none
	nakPSN  PSN
	fetches ring[fetched] // the newest READs and atomics
	replies int           // those of them with a response to send
}

// message is what kind of message is under way.
type message uint8

const (
	none message = iota
	sending
	writing
)

// outcome is what a packet of a SEND or WRITE led to.
type outcome uint8

const (
	fine       outcome = iota
	noReceive          // there is no receive request
	badRequest         // it is not what may come now, or has no valid length
	noAccess           // it may not write there
	tooLong            // it does not fit the receive request
	badList            // the receive request's list may not be written
)

// shape is what the operation of a request packet says about its message.
type shape struct {
	kind            message
	first, last     bool
	imm, invalidate bool
}

// shapes are those of SENDs and WRITEs.
var shapes = [32]shape{
	roce.SendFirst:    {kind: sending, first: true},
	roce.SendMiddle:   {kind: sending},
	roce.SendLast:     {kind: sending, last: true},
	roce.SendLastImm:  {kind: sending, last: true, imm: true},
	roce.SendLastInv:  {kind: sending, last: true, invalidate: true},
	roce.SendOnly:     {kind: sending, first: true, last: true},
	roce.SendOnlyImm:  {kind: sending, first: true, last: true, imm: true},
	roce.SendOnlyInv:  {kind: sending, first: true, last: true, invalidate: true},
	roce.WriteFirst:   {kind: writing, first: true},
	roce.WriteMiddle:  {kind: writing},
	roce.WriteLast:    {kind: writing, last: true},
	roce.WriteLastImm: {kind: writing, last: true, imm: true},
	roce.WriteOnly:    {kind: writing, first: true, last: true},
	roce.WriteOnlyImm: {kind: writing, first: true, last: true, imm: true},
}

// request takes a request packet of a reliable connection (§9.7.4).
func (q *QP) request(p *Packet) {
	r := &q.resp
	switch q.recovery.Arrived(r.expected, p.PSN()) {
	case Duplicate:
		q.counters.DuplicateRequest++
		q.repeat(p)
		return
	case Drop:
		q.counters.OutOfSequence++
		return
	case DropNak:
		q.counters.OutOfSequence++
		r.nak, r.nakPSN = nakSequence, r.expected
		return
	}
	r.nak = 0 // a NAK that has not been sent is out of date
	switch operation := p.BTH.Opcode.Operation(); {
	case shapes[operation].kind != none:
		q.take(p, shapes[operation])
	case r.message != none: // §9.7.4.1
		q.refuse(nakInvalidRequest, cq.RemInvReqErr, QPReqErr)
	case operation == roce.ReadRequest:
		q.read(p)
	case operation == roce.CompareSwap || operation == roce.FetchAdd:
		q.atomic(p, operation)
	default: // §9.7.4.1
		q.refuse(nakInvalidRequest, cq.RemInvReqErr, QPReqErr)
	}
}

// take does what a packet of a SEND or WRITE of a reliable connection asks for.
func (q *QP) take(p *Packet, s shape) {
	r := &q.resp
	switch q.place(p, s) {
	case noReceive:
		q.counters.OutOfBuffer++
		r.nak, r.nakPSN = syndromeRNR|q.attr.MinRNRTimer, r.expected
		q.recovery.Postponed()
		return
	case badRequest:
		q.refuse(nakInvalidRequest, cq.RemInvReqErr, QPReqErr)
		return
	case noAccess:
		q.refuse(nakRemoteAccess, cq.RemAccessErr, QPAccessErr)
		return
	case tooLong:
		q.counters.RespLocalLengthError++
		q.refuse(nakInvalidRequest, cq.LocLenErr, QPReqErr)
		return
	case badList:
		q.refuse(nakRemoteOp, cq.LocProtErr, QPReqErr)
		return
	}
	r.plain, r.expected = r.expected, r.expected.Add(1)
	r.unacked++
	if p.BTH.AckReq || q.config.AckEvery > 0 && r.unacked >= q.config.AckEvery {
		r.ackDue = true
	}
	if s.last {
		q.finish(p, s)
	}
}

// place checks a packet of a SEND or WRITE and puts its payload where it
// belongs (§9.7.4.1, §9.8.2).
func (q *QP) place(p *Packet, s shape) outcome {
	r := &q.resp
	switch {
	case s.first != (r.message == none), !s.first && s.kind != r.message: // §9.7.4.1
		return badRequest
	case !s.last && p.Length != q.mtu(), p.Length > q.mtu(), s.last && !s.first && p.Length == 0: // §9.7.4.1
		return badRequest
	}
	if s.kind == writing {
		return q.placeWrite(p, s)
	}
	return q.placeSend(p, s)
}

func (q *QP) placeSend(p *Packet, s shape) outcome {
	r := &q.resp
	if s.first {
		if !q.takeReceive() {
			return noReceive
		}
		r.placed = 0
	}
	if uint64(r.placed)+uint64(p.Length) > listLength(r.recv.SGL) {
		return tooLong
	}
	if !scatter(q.config.Memory, r.recv.SGL, r.placed, p.Length, p.Data) {
		return badList
	}
	r.placed += p.Length
	if s.first {
		r.message = sending
	}
	return fine
}

func (q *QP) placeWrite(p *Packet, s shape) outcome {
	r := &q.resp
	into := r.into
	if s.first {
		into = memory.Span{Key: p.RETH.RKey, VA: p.RETH.VA, Length: p.RETH.Length, Access: memory.RemoteWrite}
		switch {
		case q.attr.Access&memory.RemoteWrite == 0, into.Length > maxMessage:
			return badRequest
		case into.Length > 0 && !q.config.Memory.Check(into):
			return noAccess
		}
	}
	if p.Length > into.Length || s.last != (p.Length == into.Length) {
		return badRequest
	}
	if s.imm && !q.takeReceive() {
		return noReceive
	}
	here := into
	here.Length = p.Length
	if p.Length > 0 && !q.config.Memory.Store(here, p.Data) {
		return noAccess
	}
	if s.first {
		q.counters.RxWriteRequests++
		r.message, r.placed = writing, 0
	}
	into.VA += uint64(p.Length)
	into.Length -= p.Length
	r.into = into
	r.placed += p.Length
	return fine
}

// takeReceive makes sure that a receive request is at hand.
func (q *QP) takeReceive() bool {
	r := &q.resp
	switch {
	case r.taken:
	case q.config.Shared != nil:
		r.taken = q.config.Shared.Take(&r.recv)
	case q.receives.n > 0:
		w := q.receives.at(0)
		r.recv.ID, r.recv.SGL = w.ID, append(r.recv.SGL[:0], w.SGL...)
		q.receives.pop()
		r.taken = true
	}
	return r.taken
}

// finish ends a message whose last packet has been placed.
func (q *QP) finish(p *Packet, s shape) {
	r := &q.resp
	r.message = none
	r.msn = (r.msn + 1) & roce.PSNMask
	if s.kind == writing && !s.imm {
		return
	}
	c := Completion{Op: cq.Recv, Length: r.placed, Solicited: p.BTH.Solicited}
	if s.kind == writing {
		c.Op = cq.RecvImm
	}
	if s.imm {
		c.HasImm, c.Imm = true, p.Imm
	}
	if s.invalidate {
		if !q.config.Memory.Invalidate(p.Imm) {
			// The message has come, but its key is not one to invalidate: that is
			// an error of this side alone (§9.9.3, class J).
			q.receiveError(cq.RemInvReqErr)
			q.toError()
			q.dropReplies()
			return
		}
		c.Invalidated, c.Imm = true, p.Imm
	}
	q.received(c)
}

// received completes the receive request at hand.
func (q *QP) received(c Completion) {
	r := &q.resp
	r.taken = false
	c.ID, c.QP = r.recv.ID, q.config.Number
	q.config.RecvCQ.Complete(c)
}

// receiveError completes the receive request at hand with an error.
func (q *QP) receiveError(s cq.Status) {
	if !q.resp.taken {
		return
	}
	if s == cq.WRFlushErr {
		q.counters.RespCQEFlushError++
	} else {
		q.counters.RespCQEError++
	}
	q.received(Completion{Op: cq.Recv, Status: s})
}

// refuse ends a reliable connection because of a request: it sends a NAK for
// what is expected and goes to the error state. Responses in front of the NAK are
// still sent (§9.9.3, class C).
func (q *QP) refuse(syndrome uint8, s cq.Status, e Event) {
	q.refuseAt(q.resp.expected, syndrome, s, e)
}

func (q *QP) refuseAt(psn PSN, syndrome uint8, s cq.Status, e Event) {
	if syndrome == nakRemoteAccess {
		q.counters.RespRemoteAccessErrors++
	}
	q.receiveError(s)
	q.event(e)
	q.toError()
	q.resp.nak, q.resp.nakPSN = syndrome, psn
}

// PostRecv adds a work request to the receive queue. In the error state it is
// flushed at once.
func (q *QP) PostRecv(wr *RecvWR) error {
	switch {
	case q.config.Shared != nil:
		return ErrShared
	case q.state == qp.Reset:
		return ErrState
	case q.receives.n >= q.config.MaxRecv:
		return ErrQueueFull
	case len(wr.SGL) > q.config.MaxSGE:
		return ErrSGL
	}
	w := q.receives.push()
	w.ID, w.SGL = wr.ID, append(w.SGL[:0], wr.SGL...)
	if q.state == qp.Err {
		q.flushReceives()
	}
	return nil
}

func (q *QP) flushReceives() {
	q.receiveError(cq.WRFlushErr)
	for q.receives.n > 0 {
		q.counters.RespCQEFlushError++
		w := q.receives.at(0)
		q.config.RecvCQ.Complete(Completion{ID: w.ID, Status: cq.WRFlushErr, Op: cq.Recv, QP: q.config.Number})
		q.receives.pop()
	}
}
