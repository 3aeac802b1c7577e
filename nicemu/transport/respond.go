package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// fetched is a READ or atomic that a responder has taken, kept so that it can
// respond again: the last MaxDestRdAtomic of them (§9.7.5.1, §9.4.5).
type fetched struct {
	first   PSN // of the response
	request PSN // PSN of the request with IRN, where it differs
	packets uint32
	at      uint32 // the packet of the response to send next; packets if none
	from    uint32 // the first packet of this response
	msn     uint32
	span    memory.Span  // memory to read, for a READ
	to      *Destination // of the request, for an XRC target
	old     uint64
	atomic  bool
	sent    uint32 // how many packets of the response have been sent at least once
}

// nextPSN returns the PSN of the response packet to send next.
func (f *fetched) nextPSN() PSN { return f.first.Add(f.at) }

// isSent reports whether all of the response has been sent at least once.
func (f *fetched) isSent() bool { return f.sent == f.packets }

// handleRead handles a READ request (§9.4.4, §9.7.4.1).
func (q *QP) handleRead(p *roce.Packet) {
	s := memory.Span{Key: p.RETH.RKey, VA: p.RETH.VA, Length: p.RETH.Length, Access: memory.RemoteRead}
	if q.attr.Access&memory.RemoteRead == 0 || s.Length > maxMessage || p.Length != 0 || !q.roomToFetch(p) {
		q.refuseRequest(roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPReqErr)
		return
	}
	if f := q.memoryOf(q.resp.to).CheckSpan(s); f != memory.OK {
		q.denyAccess(q.resp.expected, f)
		return
	}
	q.counters.RxReadRequests++
	q.queueResponse(p, fetched{span: s, to: q.resp.to, packets: q.packetsFor(s.Length)})
}

// handleAtomic handles an atomic request and executes it; the response is sent later (§9.4.5).
func (q *QP) handleAtomic(p *roce.Packet, operation roce.Opcode) {
	h := &p.FurtherHeaders().Atomic
	s := memory.Span{Key: h.RKey, VA: h.VA, Length: atomicLen, Access: memory.RemoteAtomic}
	// ConnectX NICs check the alignment before the key, rdma_rxe after it.
	if q.attr.Access&memory.RemoteAtomic == 0 || p.Length != 0 || h.VA%atomicLen != 0 || !q.roomToFetch(p) {
		q.refuseRequest(roce.SyndromeInvalidRequest, cq.RemInvReqErr, qp.QPReqErr)
		return
	}
	var old uint64
	var f memory.Fault
	if operation == roce.CompareSwap {
		old, f = q.memoryOf(q.resp.to).CompareSwap(s, h.Compare, h.Swap)
	} else {
		old, f = q.memoryOf(q.resp.to).FetchAdd(s, h.Swap)
	}
	if f != memory.OK {
		q.denyAccess(q.resp.expected, f)
		return
	}
	q.counters.RxAtomicRequests++
	q.queueResponse(p, fetched{atomic: true, old: old, packets: 1})
}

// roomToFetch reports whether the peer respects MaxDestRdAtomic: requests whose response it has do
// not count (§9.7.4.1). With IRN, asking for more shows that the peer has the response; and
// responses follow each other.
func (q *QP) roomToFetch(p *roce.Packet) bool {
	r := &q.resp
	if !r.answers.isConsecutive(p) {
		return false
	}
	limit := int(q.attr.MaxDestRdAtomic)
	return r.fetches.Len() < limit || limit > 0 && r.fetches.First().isSent()
}

// queueResponse queues a READ or atomic for its response. It counts as a message done.
func (q *QP) queueResponse(p *roce.Packet, f fetched) {
	r := &q.resp
	if r.answers != nil {
		q.rememberAnswer(p, f)
		return
	}
	for r.fetches.Len() >= int(q.attr.MaxDestRdAtomic) {
		if old := r.fetches.First(); old.at < old.packets {
			r.replies--
		}
		r.fetches.DropFirst()
	}
	r.msn = (r.msn + 1) & roce.PSNMask
	f.first, f.msn = r.expected, r.msn
	r.expected = r.expected.Add(f.packets)
	*r.fetches.PushReused() = f
	r.replies++
	q.bus.fetchData(&f)
}

// handleRepeated handles a request that came before (§9.7.5.1): SENDs and WRITEs are acknowledged again and
// not executed; a READ is executed for the requested part; the response of an atomic is sent again.
// Those too old to be known are ignored: the requester has received their responses.
func (q *QP) handleRepeated(p *roce.Packet) {
	r := &q.resp
	operation := p.BTH.Opcode.Operation()
	if shapes[operation].kind != none || q.keepsDisordered() {
		r.ackDue = true
		return
	}
	for i := range r.fetches.Len() {
		f := r.fetches.At(i)
		k := psnOf(p).From(f.first)
		if k >= f.packets {
			continue
		}
		if f.atomic != (operation != roce.ReadRequest) {
			return
		}
		done := k << q.mtuShift
		if !f.atomic && p.RETH != (roce.RETH{VA: f.span.VA + uint64(done), RKey: f.span.Key, Length: f.span.Length - done}) {
			return
		}
		if f.at == f.packets {
			r.replies++
		}
		q.chunks.forgetRead(f.first)
		if f.at > k {
			f.at, f.from = k, k
			q.bus.fetchData(f)
		}
		return
	}
}

// nextResponse finds the next packet of the responder. Responses leave in the order of PSNs
// (§9.7.5.1).
func (q *QP) nextResponse() (Kind, *fetched) {
	r := &q.resp
	if r.answers != nil {
		return q.nextAnswer()
	}
	var f *fetched
	for i := 0; r.replies > 0 && f == nil; i++ {
		if g := r.fetches.At(i); g.at < g.packets {
			f = g
		}
	}
	switch {
	case f == nil && !r.ackDue && r.nak == 0:
		return Nothing, nil
	case f == nil, r.ackDue && r.plain.Before(f.nextPSN()), r.nak != 0 && r.nakPSN.Before(f.nextPSN()):
		return Control, nil
	case q.bus.awaitsData(f):
		return Nothing, nil
	case f.atomic:
		return Control, f
	}
	return Response, f
}

// responseBytes returns the length of the packet that respond would make.
func (q *QP) responseBytes() units.Bytes {
	_, f := q.nextResponse()
	switch {
	case f == nil && q.resp.hasNACK():
		return units.Bytes(roce.IRN.WithOperation(roce.Nack).PacketLen(0))
	case f == nil && q.resp.answers != nil && !q.resp.hasAck():
		return units.Bytes(roce.IRN.WithOperation(roce.ReadAck).PacketLen(0))
	case f == nil:
		return units.Bytes(roce.RC.WithOperation(roce.Ack).PacketLen(0))
	case f.atomic:
		return units.Bytes(roce.RC.WithOperation(roce.AtomicAck).PacketLen(0))
	}
	return units.Bytes(roce.RC.WithOperation(f.nextOpcode()).PacketLen(int(q.pieceLen(f.span.Length, f.at))))
}

// nextOpcode returns the opcode of the next packet of a READ response. A response that begins in the
// middle, because the rest has arrived, begins with a First as well.
func (f *fetched) nextOpcode() roce.Opcode {
	return readResponses[positionOf(f.at-f.from, f.packets-f.from)]
}

var readResponses = [...]roce.Opcode{roce.ReadFirst, roce.ReadMiddle, roce.ReadLast, roce.ReadOnly}

// makeResponse makes the response packet that nextResponse chose.
func (q *QP) makeResponse(now units.Time, f *fetched, p *roce.Packet) bool {
	r := &q.resp
	if f == nil {
		q.makeAck(p)
		return true
	}
	p.BTH.PSN = uint32(f.nextPSN())
	p.AETH = roce.AETH{Syndrome: roce.SyndromeUnlimited, MSN: f.msn}
	if f.atomic {
		p.BTH.Opcode = q.wire.WithOperation(roce.AtomicAck)
		p.FurtherHeaders().AtomicAck.Original = f.old
	} else if !q.readPiece(now, f, p) {
		return false
	}
	if q.keepsDisordered() {
		q.recordResponse(now, f)
		return true
	}
	f.at++
	f.sent = max(f.sent, f.at)
	if f.at == f.packets {
		q.chunks.forgetRead(f.first)
	}
	if f.at == f.packets {
		r.replies--
	}
	q.afterNak()
	return true
}

// readPiece fills in a packet of a READ response. If the memory is gone, it refuses the request.
func (q *QP) readPiece(now units.Time, f *fetched, p *roce.Packet) bool {
	p.BTH.Opcode = q.wire.WithOperation(f.nextOpcode())
	offset, n := f.at<<q.mtuShift, q.pieceLen(f.span.Length, f.at)
	load := func(offset, n uint32, dst []byte) ([]byte, memory.Fault) {
		s := f.span
		s.VA += uint64(offset)
		s.Length = n
		return q.memoryOf(f.to).LoadSpan(s, dst)
	}
	p.Length = int(n)
	var fault memory.Fault
	if p.Payload, fault = q.chunks.appendResponse(p.Payload, f.first, f.span.Length, offset, n, load); fault != memory.OK {
		if q.keepsDisordered() {
			q.denyAnswer(f, fault)
			return false
		}
		psn := f.nextPSN()
		q.dropReplies()
		q.denyAccess(psn, fault)
		return false
	}
	again := f.at < f.sent
	if again {
		q.counters.Retransmitted++
	}
	if fb := q.config.Feedback; fb != nil {
		fb.OnSent(now, Sent{PSN: f.nextPSN(), Payload: units.Bytes(p.Length), Again: again, Response: true})
	}
	return true
}

// makeAck makes the ACK or NAK that is due. An ACK is for the newest SEND or WRITE packet: it
// acknowledges all before it (§9.7.5.1); later READs and atomics have responses.
func (q *QP) makeAck(p *roce.Packet) {
	r := &q.resp
	switch {
	case r.hasNACK():
		q.makeNACK(p)
		return
	case r.answers != nil && !r.hasAck():
		q.acknowledgeRead(p)
		return
	}
	p.BTH.Opcode = q.wire.WithOperation(roce.Ack)
	if r.foreign {
		p.BTH.Opcode, p.BTH.MigReq = (roce.RC + roce.IRN - q.wire).WithOperation(roce.Ack), true
	}
	p.AETH.MSN = r.msn
	if r.ackDue && (r.nak == 0 || r.plain.Add(1) != r.nakPSN) {
		p.BTH.PSN, p.AETH.Syndrome = uint32(r.plain), roce.SyndromeUnlimited
		r.ackDue, r.unacked = false, 0
		return
	}
	p.BTH.PSN, p.AETH.Syndrome = uint32(r.nakPSN), r.nak
	r.ackDue, r.unacked, r.nak = false, 0, 0
	q.afterNak()
}

// afterNak ends the responses that the error state has left to send.
func (q *QP) afterNak() {
	if q.state == qp.Err && q.resp.nak == 0 {
		q.dropReplies()
	}
}

func (q *QP) dropReplies() {
	r := &q.resp
	r.fetches.Clear()
	r.buffer.clearPackets()
	r.answers.dropResponses()
	r.replies, r.ackDue, r.nak = 0, false, 0
}
