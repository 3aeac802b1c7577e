package transport

import (
	"encoding/binary"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// responseReceiver is the receiving end of the responses to READs and atomics of IRN (§5.1). The PSN of a
// response determines where its bytes go.
type responseReceiver struct {
	receiver Receiver
	expected PSN
	free     PSN // the first unused
	near     int // position of find's last result
	passed   int // work requests before the window: they wait for responses
	buffer   reorderBuffer
	ack      bool // data received in order is to be acknowledged
	mtuShift uint8

	// Placement information for requests.
	receives uint32 // receive requests that messages with PSNs take, 24 bits
	barrier  PSN    // the newest packet that ends a message with invalidate, or is an atomic
	barred   bool   // there was one
}

// responsePackets returns the number of packets in the response to a work request.
func (b *responseReceiver) responsePackets(w *sendWQE) uint32 {
	if !w.Op.fetchesData() {
		return 0
	}
	return max(1, uint32((uint64(w.length)+1<<b.mtuShift-1)>>b.mtuShift))
}

// numberResponse assigns a work request the PSNs of its response, or the number of the receive request that
// it takes.
func (b *responseReceiver) numberResponse(w *sendWQE) {
	w.answer, w.receive = b.free, b.receives
	b.free = b.free.Add(b.responsePackets(w))
	if w.Op.isSend() || w.Op == WriteImm {
		b.receives = (b.receives + 1) & roce.PSNMask
	}
}

// ackIsDue reports whether there is an acknowledgement to send.
func (b *responseReceiver) ackIsDue() bool {
	return b != nil && (b.ack || b.buffer.unsentNACKs.Len() > 0)
}

// clearExpected drops the expected responses.
func (b *responseReceiver) clearExpected() {
	b.expected = b.free
	b.near, b.passed, b.ack = 0, 0, false
	b.buffer.clearPackets()
}

// isWhole reports whether the whole response to a work request has arrived.
func (b *responseReceiver) isWhole(w *sendWQE) bool {
	return !w.Op.fetchesData() || !b.expected.Before(w.answer.Add(b.responsePackets(w)))
}

// findRequest returns the work request that a PSN of a response belongs to, and its place in the queue.
// The PSN is before free, and not before the oldest one's.
func (r *requester) findRequest(psn PSN) (*sendWQE, int) {
	b := r.responses
	if b.near < r.numbered {
		if w := r.queue.At(b.near); psn.From(w.answer) < b.responsePackets(w) {
			return w, b.near
		}
	}
	base := r.queue.First().answer
	low, high := 0, r.numbered-1
	for low < high {
		mid := (low + high + 1) / 2
		if r.queue.At(mid).answer.From(base) <= psn.From(base) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	b.near = low
	return r.queue.At(low), low
}

// receiveResponse handles a packet of the response to a READ or atomic.
func (q *QP) receiveResponse(now units.Time, p *roce.Packet) {
	r := &q.req
	b, psn := r.responses, psnOf(p)
	if q.state < qp.RTS {
		return
	}
	verdict := b.receiver.JudgeArrival(b.expected, psn)
	if verdict == Duplicate {
		b.ack = true
		return
	}
	if psn.From(b.expected) >= b.free.From(b.expected) {
		return // not requested
	}
	w, i := r.findRequest(psn)
	if w.fault != cq.Success {
		return
	}
	r.moved = now
	switch verdict {
	case Accept:
		if s := b.buffer.findPacket(psn); s != nil {
			b.buffer.removePacket(s) // it was kept, and has arrived again
		}
		if !q.placeResponse(w, psn, p) {
			return
		}
		b.ack = true
		b.expected = psn.Add(1)
		if !b.buffer.isEmpty() {
			q.placeKept()
		}
	case Keep, Hold:
		q.counters.OutOfSequence++
		if b.buffer.findPacket(psn) == nil {
			hold := verdict == Hold || q.chunks != nil || q.overlapsOlder(w, i)
			if !hold && !q.placeResponse(w, psn, p) {
				return
			}
			b.buffer.addPacket(b.expected, p, !hold, memory.Place{})
		}
		b.buffer.queueNACK(psn)
	default:
		q.counters.OutOfSequence++
		return
	}
	// A response means that the request and all earlier ones have been executed.
	was, inFlight := r.una, r.inFlight
	switch {
	case w.first.From(was) < r.psnWindow().Len():
		q.advanceWindow(w.first.Add(1))
	case b.isWhole(r.queue.First()):
		q.completeWhole()
	default:
		return
	}
	switch {
	case q.state == qp.Err:
	case r.una != was:
		q.restartTimer(now, p, was, inFlight)
	default:
		q.completeLocal()
	}
}

// placeKept handles the kept responses whose turn has come.
func (q *QP) placeKept() {
	b := q.req.responses
	for {
		s := b.buffer.findPacket(b.expected)
		if s == nil {
			break
		}
		if !s.placed {
			w, _ := q.req.findRequest(s.psn)
			if w.fault != cq.Success || !q.placeResponse(w, s.psn, b.buffer.restorePacket(s)) {
				return
			}
		}
		b.buffer.removePacket(s)
		b.expected = b.expected.Add(1)
	}
	b.buffer.dropOldNACKs(b.expected)
}

// placeResponse places the data of a response packet. It returns false if the work request has failed, or
// will in its turn.
func (q *QP) placeResponse(w *sendWQE, psn PSN, p *roce.Packet) bool {
	k, n := psn.From(w.answer), q.req.responses.responsePackets(w)
	last, at := k == n-1, positionOf(k, n)
	operation := p.BTH.Opcode.Operation()
	var offset uint32
	data, ok := p.Payload, false
	if w.Op == Read {
		offset, n = k<<q.mtuShift, q.pieceLen(w.length, k)
		ok = operation == readResponses[at] && p.Length == int(n)
	} else {
		ok = operation == roce.AtomicAck
		binary.LittleEndian.PutUint64(q.req.old[:], p.FurtherHeaders().AtomicAck.Original)
		n, data = atomicLen, q.req.old[:]
	}
	if !ok {
		q.failInTurn(w, cq.BadRespErr)
		return false
	}
	if k == 0 {
		q.chunks.beginRead()
	}
	store := func(at uint64, n uint32, data []byte) memory.Fault {
		return q.config.Memory.ScatterBytes(w.SGL, uint32(at), n, data)
	}
	if f := q.chunks.putRead(uint64(offset), n, data, last, store); f != memory.OK {
		q.failInTurn(w, f.Status(memory.Local))
		return false
	}
	if w.Op == Read {
		q.counters.PayloadReceived += uint64(n)
	}
	return true
}

// advancePast is advance for IRN: acknowledged work requests wait for earlier READs and atomics to
// receive everything.
func (q *QP) advancePast(upto PSN) {
	r := &q.req
	b := r.responses
	for q.state != qp.Err && (r.una != upto || b.passed < r.numbered && r.queue.At(b.passed).Op.isLocal()) {
		w := r.queue.At(b.passed)
		k, end := r.una.From(w.first), w.packets
		if n := upto.From(w.first); n < end {
			end = n
		}
		r.una = w.first.Add(end)
		if !w.Op.fetchesData() && !w.Op.isLocal() {
			r.inFlight -= units.Bytes(min(w.length, end<<q.mtuShift) - k<<q.mtuShift)
		}
		if end == w.packets {
			b.passed++
			q.completeWhole()
		}
	}
}

// handleLateRefusal handles a refusal of a READ that was acknowledged and whose memory has since gone, and of a
// request after a response that will no longer arrive.
func (q *QP) handleLateRefusal(psn PSN, p *roce.Packet) bool {
	r := &q.req
	syndrome := p.AETH.Syndrome
	if q.state < qp.RTS || r.responses.passed == 0 || syndrome&roce.SyndromeKind != roce.SyndromeSequence || syndrome == roce.SyndromeSequence {
		return false
	}
	switch w := r.queue.First(); {
	case w.first == psn && w.Op == Read:
		q.handleNAK(0, syndrome)
		return true
	case psn.From(r.una) < r.psnWindow().Len():
		q.failOldest(cq.RetryExcErr)
		return true
	}
	return false
}

// failInTurn fails a work request once those before it have completed.
func (q *QP) failInTurn(w *sendWQE, s cq.Status) {
	w.fault = s
	q.completeWhole()
	if q.state != qp.Err {
		q.completeLocal()
	}
}

// completeWhole completes work requests that waited for responses.
func (q *QP) completeWhole() {
	r := &q.req
	for b := r.responses; b.passed > 0 && q.state != qp.Err; {
		w := r.queue.First()
		if w.fault != cq.Success || !b.isWhole(w) {
			return
		}
		q.completeOldest(cq.Success)
	}
}

// overlapsOlder reports whether the response to a READ or atomic goes to memory that an earlier
// one, which has not received everything, writes too.
func (q *QP) overlapsOlder(w *sendWQE, i int) bool {
	r := &q.req
	if q.listsOverlap(w.SGL, nil) {
		return true
	}
	for j := range i {
		if o := r.queue.At(j); o.Op.fetchesData() && !r.responses.isWhole(o) && q.listsOverlap(w.SGL, o.SGL) {
			return true
		}
	}
	return false
}

// listsOverlap reports whether two lists have bytes in common; for one list, whether its elements do.
func (q *QP) listsOverlap(a, b []memory.SGE) bool {
	for i := range a {
		others := b
		if b == nil {
			others = a[:i]
		}
		for j := range others {
			if q.sameMemory(&a[i], &others[j]) {
				return true
			}
		}
	}
	return false
}

// sameMemory reports whether two elements of lists have bytes in common.
func (q *QP) sameMemory(a, b *memory.SGE) bool {
	if a.Length == 0 || b.Length == 0 {
		return false
	}
	at := func(e *memory.SGE) (memory.Place, memory.Fault) {
		return q.config.Memory.PlaceOf(memory.Span{Key: e.LKey, VA: e.VA, Length: e.Length, Access: memory.LocalWrite})
	}
	x, f := at(a)
	y, g := at(b)
	return f == memory.OK && g == memory.OK && x.Overlaps(y)
}

// acknowledgeRead makes the acknowledgement of a response: of the oldest kept one that has none,
// else of all received in order.
func (q *QP) acknowledgeRead(p *roce.Packet) {
	b := q.req.responses
	p.BTH.Opcode, p.BTH.PSN = q.wire.WithOperation(roce.ReadAck), uint32(b.expected)
	p.Selective.PSN = uint32(b.expected.Add(roce.PSNMask))
	if b.buffer.unsentNACKs.Len() > 0 {
		p.Selective.PSN = uint32(*b.buffer.unsentNACKs.First())
		b.buffer.unsentNACKs.DropFirst()
	}
	b.ack = false // it also acknowledges data received in order
}

// readDeadline returns when a requester gives up waiting for responses alone, whose timer the
// responder has.
func (q *QP) readDeadline() units.Time {
	r := &q.req
	if r.responses == nil || r.responses.passed == 0 || r.una != r.next {
		return units.Never
	}
	timeout := r.sender.RetryTime(q.attr.RetryCount, AckTimeout(q.attr.Timeout))
	if timeout == units.Never {
		return units.Never
	}
	return r.moved + timeout
}
