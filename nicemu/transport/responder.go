package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/wire/roce"
)

// responder is the receiving side of a queue pair.
type responder struct {
	expected    PSN
	msn         uint32         // messages done, 24 bits (§9.7.7)
	received    uint32         // receive requests completed, 24 bits
	established bool           // a packet has arrived
	early       bool           // the payload of the current packet is in memory
	receiver    Receiver       // of RC: what to do with packets out of order
	buffer      *reorderBuffer // of IRN: packets out of order
	answers     *answers       // of IRN: to READs and atomics
	to          *Destination   // of the last request to an XRC target; else nil

	// The message under way.
	message  message
	skipping bool        // UC: until the next message begins
	taken    bool        // recv holds a receive request
	recv     qp.RecvWR   // which takes its bytes
	placed   uint32      // bytes placed
	into     memory.Span // rest of the memory that a WRITE goes to

	// Pending acknowledgements and responses.
	plain   PSN   // the newest SEND or WRITE packet taken
	ackDue  bool  // plain is to be acknowledged
	foreign bool  // the NAK is for a peer with the other kind of loss recovery
	nak     uint8 // syndrome of the NAK to send; 0 if none
	nakPSN  PSN
	unacked int32               // packets since the last ACK
	fetches queue.FIFO[fetched] // the newest READs and atomics
	replies int32               // those of fetches with a response to send
}

// message is the kind of the message under way.
type message uint8

const (
	none message = iota
	sending
	writing
)

// outcome is the result of a packet of a SEND or WRITE.
type outcome uint8

const (
	fine       outcome = iota
	noReceive          // there is no receive request
	badRequest         // it is not allowed now, or has no valid length
	noAccess           // it may not write there
	tooLong            // it does not fit the receive request
	badList            // the receive request's list may not be written
)

// shape describes an operation of a request packet.
type shape struct {
	kind            message
	first, last     bool
	imm, invalidate bool
}

// shapes are the shapes of SENDs and WRITEs.
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

// handleRequest handles a request packet of a reliable connection (§9.7.4).
func (q *QP) handleRequest(p *roce.Packet) {
	r := &q.resp
	if r.answers != nil && r.answers.refused {
		return
	}
	verdict := r.receiver.JudgeArrival(r.expected, psnOf(p))
	switch verdict {
	case Duplicate:
		q.counters.DuplicateRequest++
		q.handleRepeated(p)
		return
	case Drop:
		q.counters.OutOfSequence++
		return
	case Keep, Hold:
		q.storeOutOfOrder(p, verdict == Hold)
		return
	case DropNak:
		q.counters.OutOfSequence++
		r.nak, r.nakPSN = roce.SyndromeSequence, r.expected
		return
	}
	r.nak = 0 // a NAK not sent yet is outdated
	if q.config.Domain != nil && !q.findDestination(p) {
		return
	}
	if r.buffer.isEmpty() {
		q.performRequest(p)
		return
	}
	if s := r.buffer.findPacket(r.expected); s != nil {
		r.buffer.removePacket(s) // there was no receive request for it
	}
	q.performRequest(p)
	q.replayKept()
}

// findDestination finds the shared receive queue that a request to an XRC target names. It refuses the
// request if the domain has none with that number, or if the message has named another one before
// (annex A14).
func (q *QP) findDestination(p *roce.Packet) bool {
	r := &q.resp
	to := q.config.Domain(p.FurtherHeaders().XRC.SRQ)
	switch {
	case to == nil:
		q.refuseSRQ(r.expected)
		return false
	case r.message != none && to != r.to:
		q.refuseRequest(roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPReqErr)
		return false
	}
	r.to = to
	return true
}

// memoryOf returns the memory for WRITEs, READs and atomics.
func (q *QP) memoryOf(to *Destination) Memory {
	if to != nil {
		return to.Memory
	}
	return q.config.Memory
}

// receiveMemory returns the memory for the lists of receive requests.
func (q *QP) receiveMemory() Memory {
	if to := q.resp.to; to != nil {
		return to.Memory
	}
	return q.config.ReceiveMemory
}

// sharedReceives returns the shared receive queue; nil if the queue pair has its own receives.
func (q *QP) sharedReceives() Receives {
	if to := q.resp.to; to != nil {
		return to.Receives
	}
	return q.config.Shared
}

// receiveCQ returns the completion queue of receive requests.
func (q *QP) receiveCQ() CQ {
	if to := q.resp.to; to != nil {
		return to.CQ
	}
	return q.config.RecvCQ
}

// refuseSRQ refuses a request to an XRC target that names no shared receive queue of the domain.
// Verbs have no event for that alone; as in Linux's drivers (qedr, hns_roce) it is an access error.
func (q *QP) refuseSRQ(psn PSN) {
	q.refuseAt(refusal{psn, roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPAccessErr})
}

// performRequest executes a packet whose turn has come.
func (q *QP) performRequest(p *roce.Packet) {
	r := &q.resp
	switch operation := p.BTH.Opcode.Operation(); {
	case shapes[operation].kind != none:
		q.executeData(p, shapes[operation])
	case r.message != none: // §9.7.4.1
		q.refuseRequest(roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPReqErr)
	case operation == roce.ReadRequest:
		q.handleRead(p)
	case operation == roce.CompareSwap || operation == roce.FetchAdd:
		q.handleAtomic(p, operation)
	default: // §9.7.4.1
		q.refuseRequest(roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPReqErr)
	}
}

// executeData executes a packet of a SEND or WRITE of a reliable connection.
func (q *QP) executeData(p *roce.Packet, s shape) {
	r := &q.resp
	switch o, f := q.placePayload(p, s); o {
	case noReceive:
		q.counters.OutOfBuffer++
		r.nak, r.nakPSN = roce.SyndromeRNR|q.attr.MinRNRTimer, r.expected
		r.receiver.OnRNR()
		return
	case badRequest:
		q.refuseRequest(roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPReqErr)
		return
	case noAccess:
		if s.imm {
			q.takeReceive() // it completes with the error
		}
		q.denyAccess(r.expected, f)
		return
	case tooLong:
		q.counters.RespLocalLengthError++
		q.refuseRequest(roce.SyndromeInvalidRequest, cq.LocLenErr, qp.QPReqErr)
		return
	case badList:
		if f == memory.Gone {
			q.endWithProgram(r.expected)
			return
		}
		q.refuseRequest(roce.SyndromeRemoteOperation, f.Status(memory.Local), qp.QPReqErr)
		return
	}
	r.plain, r.expected = r.expected, r.expected.Add(1)
	r.unacked++
	if p.BTH.AckReq || q.config.AckEvery > 0 && int(r.unacked) >= q.config.AckEvery {
		r.ackDue = true
	}
	if s.last {
		q.finishMessage(p, s)
	}
}

// placePayload checks a packet of a SEND or WRITE and places its payload (§9.7.4.1, §9.8.2). The fault
// says why memory cannot be written.
func (q *QP) placePayload(p *roce.Packet, s shape) (outcome, memory.Fault) {
	r, mtu := &q.resp, int(q.pathMTU())
	switch {
	case s.first != (r.message == none), !s.first && s.kind != r.message: // §9.7.4.1
		return badRequest, memory.OK
	case q.keepsDisordered() && !q.agreesWithPrevious(p, s): // its headers contradict its place
		return badRequest, memory.OK
	case !s.last && p.Length != mtu, p.Length > mtu, s.last && !s.first && p.Length == 0: // §9.7.4.1
		return badRequest, memory.OK
	}
	if s.kind == writing {
		return q.placeWrite(p, s)
	}
	return q.placeSend(p, s)
}

func (q *QP) placeSend(p *roce.Packet, s shape) (outcome, memory.Fault) {
	r, n := &q.resp, uint32(p.Length)
	if s.first {
		if !q.takeReceive() {
			return noReceive, memory.OK
		}
		r.placed = 0
		q.chunks.beginMessage()
	}
	if uint64(r.placed)+uint64(n) > memory.ListLength(r.recv.SGL) {
		return tooLong, memory.OK
	}
	store := func(at uint64, n uint32, data []byte) memory.Fault {
		return q.scatterAround(psnOf(p), r.recv.SGL, uint32(at), n, data)
	}
	if f := q.storeBytes(uint64(r.placed), n, p.Payload, s.last, store); f != memory.OK {
		return badList, f
	}
	q.counters.PayloadReceived += uint64(n)
	r.placed += n
	if s.first {
		r.message = sending
	}
	return fine, memory.OK
}

func (q *QP) placeWrite(p *roce.Packet, s shape) (outcome, memory.Fault) {
	r, n := &q.resp, uint32(p.Length)
	into := r.into
	if s.first {
		into = memory.Span{Key: p.RETH.RKey, VA: p.RETH.VA, Length: p.RETH.Length, Access: memory.RemoteWrite}
		if q.attr.Access&memory.RemoteWrite == 0 || into.Length > maxMessage {
			return badRequest, memory.OK
		}
		if f := q.memoryOf(r.to).CheckSpan(into); f != memory.OK {
			return noAccess, f
		}
	}
	if n > into.Length || s.last != (n == into.Length) {
		return badRequest, memory.OK
	}
	if s.imm && !q.takeReceive() {
		return noReceive, memory.OK
	}
	if s.first {
		q.chunks.beginMessage()
	}
	store := func(at uint64, n uint32, data []byte) memory.Fault {
		here := into
		here.VA, here.Length = at, n
		return q.storeAround(q.memoryOf(r.to), psnOf(p), here, data)
	}
	if f := q.storeBytes(into.VA, n, p.Payload, s.last, store); f != memory.OK {
		return noAccess, f
	}
	if s.first {
		q.counters.RxWriteRequests++
		r.message, r.placed = writing, 0
	}
	into.VA += uint64(n)
	into.Length -= n
	r.into = into
	q.counters.PayloadReceived += uint64(n)
	r.placed += n
	return fine, memory.OK
}

// agreesWithPrevious reports whether the headers of an IRN packet agree with the packets before it.
func (q *QP) agreesWithPrevious(p *roce.Packet, s shape) bool {
	r := &q.resp
	if s.kind == sending {
		placed := uint32(0)
		if !s.first {
			placed = r.placed
		}
		return p.Send.Receive == r.received && p.Send.Packet<<q.mtuShift == placed
	}
	return s.first || p.RETH == roce.RETH{VA: r.into.VA, RKey: r.into.Key, Length: r.into.Length}
}

// storeBytes stores n received bytes, unless they are stored already.
func (q *QP) storeBytes(at uint64, n uint32, data []byte, last bool, store storer) memory.Fault {
	if q.resp.early {
		return memory.OK
	}
	return q.chunks.putBytes(at, n, data, last, store)
}

// takeReceive makes sure that there is a current receive request.
func (q *QP) takeReceive() bool {
	r := &q.resp
	switch {
	case r.taken:
	case q.sharedReceives() != nil:
		r.taken = q.sharedReceives().TakeRequest(&r.recv)
	case q.receives.Len() > 0:
		w := q.receives.First()
		r.recv.ID, r.recv.SGL = w.ID, append(r.recv.SGL[:0], w.SGL...)
		q.receives.DropFirst()
		r.taken = true
	}
	return r.taken
}

// finishMessage ends a message whose last packet has been placed.
func (q *QP) finishMessage(p *roce.Packet, s shape) {
	r := &q.resp
	r.message = none
	r.msn = (r.msn + 1) & roce.PSNMask
	if s.kind == writing && !s.imm {
		return
	}
	c := cq.Completion{Opcode: cq.Recv, ByteLen: r.placed}
	if s.kind == writing {
		c.Opcode = cq.RecvImm
	}
	if s.imm {
		c.Flags, c.Imm = cq.WithImm, p.ImmDt.Data
	}
	if s.invalidate {
		if f := q.memoryOf(r.to).InvalidateKey(p.IETH.RKey); f != memory.OK {
			// The message has arrived, but its key cannot be invalidated: that is an error of this
			// side alone (§9.9.3, class J).
			q.receiveError(f.Status(memory.RemoteInvalidate))
			q.toError()
			q.dropReplies()
			return
		}
		c.Flags, c.Imm = cq.WithInv, p.IETH.RKey
	}
	q.completeReceive(c, p.BTH.Solicited)
}

// completeReceive completes the current receive request.
func (q *QP) completeReceive(c cq.Completion, solicited bool) {
	r := &q.resp
	r.taken = false
	r.received = (r.received + 1) & roce.PSNMask
	c.ID, c.QP = r.recv.ID, q.config.Number
	if r.to != nil {
		c.SRQ, c.SrcQP = r.to.Number, q.attr.DestQP
	}
	q.receiveCQ().CompleteRequest(c, solicited)
}

// receiveError completes the current receive request with an error.
func (q *QP) receiveError(s cq.Status) {
	if !q.resp.taken {
		return
	}
	q.counters.RespCQEError++
	if s == cq.WRFlushErr {
		q.counters.RespCQEFlushError++
	}
	q.completeReceive(cq.Completion{Opcode: cq.Recv, Status: s}, false)
}

// refuseRequest ends a reliable connection because of a request: it sends a NAK for the expected PSN and
// goes to the error state. Responses before the NAK are still sent (§9.9.3, class C).
func (q *QP) refuseRequest(syndrome uint8, s cq.Status, e qp.Event) {
	q.refuseAt(refusal{q.resp.expected, syndrome, s, e})
}

// endWithProgram ends a connection because of a request for the memory of a program that has ended: the
// peer hears nothing more, as with a destroyed queue pair. An XRC target can be of another program,
// and refuses the request, as if the shared receive queue were destroyed already.
func (q *QP) endWithProgram(psn PSN) {
	if q.config.Domain != nil {
		q.refuseSRQ(psn)
		return
	}
	q.toError()
	q.dropReplies()
}

// denyAccess refuses the request of a PSN because of a memory fault.
func (q *QP) denyAccess(psn PSN, f memory.Fault) {
	if f == memory.Gone {
		q.endWithProgram(psn)
		return
	}
	q.refuseAt(refusalFor(psn, f))
}

// refusalFor returns the refusal for a memory fault. A WRITE with immediate data also ends its receive
// request, with a local access error (§11.6.2).
func refusalFor(psn PSN, f memory.Fault) refusal {
	if s := f.Status(memory.Remote); s != cq.RemAccessErr {
		return refusal{psn, roce.SyndromeInvalidRequest, s, qp.QPReqErr}
	}
	return refusal{psn, roce.SyndromeRemoteAccess, cq.LocAccessErr, qp.QPAccessErr}
}

func (q *QP) refuseAt(r refusal) {
	if a := q.resp.answers; a.areUnacknowledged() {
		a.refuseLater(a.free, r)
		return
	}
	q.refuseNow(r)
}

func (q *QP) refuseNow(r refusal) {
	if r.syndrome == roce.SyndromeRemoteAccess {
		q.counters.RespRemoteAccessErrors++
	}
	q.receiveError(r.status)
	q.raiseEvent(r.event)
	q.toError()
	q.resp.answers.dropResponses()
	q.resp.nak, q.resp.nakPSN = r.syndrome, r.psn
}

// handleForeign handles a packet of a peer that uses the other of RC and IRN. A request is refused in its
// own opcodes, so that the peer learns of it at once; a received refusal fails all outstanding
// requests.
func (q *QP) handleForeign(p *roce.Packet) {
	q.counters.RecoveryMismatch++
	operation := p.BTH.Opcode.Operation()
	switch {
	case !isResponse(operation) && operation < roce.Nack:
		q.resp.foreign = true
		q.refuseNow(refusal{psnOf(p), roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPReqErr})
	case q.state >= qp.RTS && q.req.una != q.req.next && operation == roce.Ack && p.AETH.Syndrome == roce.SyndromeInvalidRequest:
		q.counters.ReqRemoteInvalidRequest++
		q.failOldest(cq.RemInvReqErr)
	}
}

// PostRecv adds a work request to the receive queue. In the error state it is
// flushed at once.
func (q *QP) PostRecv(wr *qp.RecvWR) error {
	switch {
	case q.config.Shared != nil || q.config.Service == roce.XRC:
		return ErrShared
	case q.state == qp.Reset:
		return ErrState
	case q.receives.Len() >= q.config.MaxRecv:
		return ErrQueueFull
	}
	if err := memory.CheckCount(wr.SGL, q.config.MaxSGE); err != nil {
		return err
	}
	w := q.receives.PushReused()
	w.ID, w.SGL = wr.ID, append(w.SGL[:0], wr.SGL...)
	if q.state == qp.Err {
		q.flushReceives()
	}
	return nil
}

func (q *QP) flushReceives() {
	q.receiveError(cq.WRFlushErr)
	for q.receives.Len() > 0 {
		q.counters.RespCQEError++
		q.counters.RespCQEFlushError++
		w := q.receives.First()
		q.config.RecvCQ.CompleteRequest(cq.Completion{ID: w.ID, Status: cq.WRFlushErr, Opcode: cq.Recv, QP: q.config.Number}, false)
		q.receives.DropFirst()
	}
}
