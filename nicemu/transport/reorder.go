package transport

import (
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/wire/roce"
)

// A responder that keeps packets out of order handles each of them twice. On arrival it places the
// payload. When all earlier packets have arrived, it does the rest as if the packet arrived only
// then: checks of the message, counting, completions, key invalidation. So completions are in
// order, and a premature completion (IRN, §5.3) is a kept packet.

// reorderBuffer are the packets that a responder, or a requester for responses, holds out of order, by PSN.
type reorderBuffer struct {
	slots       []keptPacket    // at PSN modulo their number, a power of two
	n           int             // of them in use
	early       int             // of them in memory
	last        PSN             // the newest, if there are any
	unsentNACKs queue.FIFO[PSN] // those without a NACK so far
	again       roce.Packet     // the packet whose turn has come
}

// keptPacket is the state of a packet until its turn comes.
type keptPacket struct {
	psn    PSN
	here   bool
	placed bool // its payload is in memory
	at     memory.Place
	bth    roce.BTH
	reth   roce.RETH
	send   roce.SendETH
	atomic roce.AtomicETH
	old    uint64 // result of an atomic
	extra  uint32 // immediate data, the key to invalidate or the PSN of a response
	length int
	data   []byte // the payload, unless it is placed
}

// isEmpty reports whether nothing is kept, as for a responder that keeps nothing.
func (k *reorderBuffer) isEmpty() bool { return k == nil || k.n == 0 }

// findPacket returns the packet of a PSN, nil if it is not kept.
func (k *reorderBuffer) findPacket(psn PSN) *keptPacket {
	if k.isEmpty() {
		return nil
	}
	if s := &k.slots[int(psn)&(len(k.slots)-1)]; s.here && s.psn == psn {
		return s
	}
	return nil
}

// addPacket keeps a packet, whose payload is in memory or is kept too.
func (k *reorderBuffer) addPacket(expected PSN, p *roce.Packet, placed bool, at memory.Place) {
	psn := psnOf(p)
	for int(psn.From(expected)) >= len(k.slots) {
		k.growBuffer()
	}
	if k.n == 0 || k.last.Before(psn) {
		k.last = psn
	}
	k.n++
	to := &k.slots[int(psn)&(len(k.slots)-1)]
	*to = keptPacket{
		psn: psn, here: true, placed: placed, at: at, bth: p.BTH, reth: p.RETH, send: p.Send,
		length: p.Length, data: to.data[:0],
	}
	e := p.BTH.Opcode.Extensions()
	switch {
	case e.Has(roce.ExtImmDt):
		to.extra = p.ImmDt.Data
	case e.Has(roce.ExtIETH):
		to.extra = p.IETH.RKey
	case e.Has(roce.ExtSelETH):
		to.extra = p.Selective.PSN
	}
	switch {
	case e.Has(roce.ExtAtomicETH):
		to.atomic = p.FurtherHeaders().Atomic
	case e.Has(roce.ExtAtomicAckETH):
		to.old = p.FurtherHeaders().AtomicAck.Original
	}
	if placed {
		k.early++
	} else {
		to.data = append(to.data, p.Payload...)
	}
}

// removePacket drops a packet. Data it lent stays valid until add.
func (k *reorderBuffer) removePacket(s *keptPacket) {
	s.here = false
	k.n--
	if s.placed {
		k.early--
	}
}

func (k *reorderBuffer) growBuffer() {
	bigger := make([]keptPacket, max(16, 2*len(k.slots)))
	for _, s := range k.slots {
		if s.here {
			bigger[int(s.psn)&(len(bigger)-1)] = s
		}
	}
	k.slots = bigger
}

func (k *reorderBuffer) clearPackets() {
	if k == nil {
		return
	}
	for i := range k.slots {
		k.slots[i].here = false
	}
	k.n, k.early = 0, 0
	k.unsentNACKs.Clear()
}

// restorePacket returns a kept packet, valid until the next call.
func (k *reorderBuffer) restorePacket(s *keptPacket) *roce.Packet {
	p := &k.again
	p.BTH, p.RETH, p.Send = s.bth, s.reth, s.send
	p.ImmDt.Data, p.IETH.RKey, p.Selective.PSN = s.extra, s.extra, s.extra
	switch e := s.bth.Opcode.Extensions(); {
	case e.Has(roce.ExtAtomicETH):
		p.FurtherHeaders().Atomic = s.atomic
	case e.Has(roce.ExtAtomicAckETH):
		p.FurtherHeaders().AtomicAck.Original = s.old
	}
	p.Length, p.Payload = s.length, s.data
	return p
}

// storeOutOfOrder handles a packet out of order. If its payload cannot be placed, it is not kept, but checked
// when it arrives in its turn.
func (q *QP) storeOutOfOrder(p *roce.Packet, hold bool) {
	r := &q.resp
	psn := psnOf(p)
	q.counters.OutOfSequence++
	if r.buffer.findPacket(psn) == nil {
		placed, at, ok := q.placeEarly(p, hold || p.BTH.MigReq)
		if !ok {
			return
		}
		r.buffer.addPacket(r.expected, p, placed, at)
	} else {
		q.counters.DuplicateRequest++
	}
	r.buffer.queueNACK(psn)
}

// queueNACK records that a packet needs a NACK.
func (k *reorderBuffer) queueNACK(psn PSN) {
	if k.unsentNACKs.Len() < maxUnsentNACKs {
		*k.unsentNACKs.PushReused() = psn
	}
}

// maxUnsentNACKs is the number of NACKs that may wait to be sent. Further ones are dropped, as if lost.
const maxUnsentNACKs = 1024

// placeEarly writes the payload of a packet out of order to memory, in one piece, unless it must
// wait: because the packet asks for that, or because of placement, chunks of memory or shared
// receive queues. ok is false if the packet must not be kept.
func (q *QP) placeEarly(p *roce.Packet, hold bool) (placed bool, at memory.Place, ok bool) {
	n, s := uint32(p.Length), shapes[p.BTH.Opcode.Operation()]
	hold = hold || q.chunks != nil
	var into memory.Span
	switch {
	case s.kind == none:
		return false, at, p.BTH.Opcode.Extensions() != 0 && n == 0
	case n > q.pathMTU(), !s.last && n != q.pathMTU():
		return false, at, false
	case s.kind == writing:
		into = memory.Span{Key: p.RETH.RKey, VA: p.RETH.VA, Length: n, Access: memory.RemoteWrite}
		if q.attr.Access&memory.RemoteWrite == 0 || n > p.RETH.Length || s.last != (n == p.RETH.Length) {
			return false, at, false
		}
	case q.config.Shared != nil:
		return false, at, true // its request is not known until its turn
	default:
		list, posted := q.receiveAhead(p.Send.Receive)
		offset := uint64(p.Send.Packet) << q.mtuShift
		if !posted || offset+uint64(n) > memory.ListLength(list) {
			return false, at, false
		}
		into, posted = pieceOf(list, uint32(offset), n)
		hold = hold || !posted
	}
	if hold {
		return false, at, true
	}
	at, f := q.config.Memory.PlaceOf(into)
	if f != memory.OK || q.storeAround(q.config.Memory, psnOf(p), into, p.Payload) != memory.OK {
		return false, at, false
	}
	return true, at, true
}

// pieceOf returns n bytes of a list, from offset on, if they are in one element.
func pieceOf(list []memory.SGE, offset, n uint32) (memory.Span, bool) {
	for i := range list {
		e := &list[i]
		if offset < e.Length {
			return memory.Span{Key: e.LKey, VA: e.VA + uint64(offset), Length: n, Access: memory.LocalWrite}, n <= e.Length-offset
		}
		offset -= e.Length
	}
	return memory.Span{}, n == 0
}

// receiveAhead returns the list of a receive request by its number; false if it is not posted.
func (q *QP) receiveAhead(number uint32) ([]memory.SGE, bool) {
	r := &q.resp
	i := PSN(number).From(PSN(r.received))
	if r.taken {
		if i == 0 {
			return r.recv.SGL, true
		}
		i--
	}
	if i >= uint32(q.receives.Len()) {
		return nil, false
	}
	return q.receives.At(int(i)).SGL, true
}

// storeAround writes the payload of a packet, except over data of newer packets that arrived before
// it: where both went to the same memory, by whatever key, resent packets of an older message leave
// the newer one's bytes.
func (q *QP) storeAround(m Memory, psn PSN, s memory.Span, data []byte) memory.Fault {
	k := q.resp.buffer
	if k == nil || k.early == 0 || s.Length == 0 {
		return m.StoreSpan(s, data)
	}
	here, f := m.PlaceOf(s)
	if f != memory.OK {
		return f
	}
	for psn.Before(k.last) {
		psn = psn.Add(1)
		newer := k.findPacket(psn)
		if newer == nil || !newer.placed || !newer.at.Overlaps(here) {
			continue
		}
		// The parts before and after it.
		if before := newer.at.Addr - here.Addr; newer.at.Addr > here.Addr {
			if f := q.storeAround(m, psn, cutSpan(s, 0, uint32(before)), cutBytes(data, 0, uint32(before))); f != memory.OK {
				return f
			}
		}
		if end := newer.at.Addr + uint64(newer.at.Length) - here.Addr; end < uint64(s.Length) {
			return q.storeAround(m, psn, cutSpan(s, uint32(end), s.Length), cutBytes(data, uint32(end), s.Length))
		}
		return memory.OK
	}
	return m.StoreSpan(s, data)
}

func cutSpan(s memory.Span, from, to uint32) memory.Span {
	s.VA, s.Length = s.VA+uint64(from), to-from
	return s
}

// cutBytes is cut for bytes, if they are modelled.
func cutBytes(b []byte, from, to uint32) []byte {
	if len(b) == 0 {
		return nil
	}
	return b[from:to]
}

// scatterAround is storeAround for the list of a receive request.
func (q *QP) scatterAround(psn PSN, list []memory.SGE, offset, n uint32, data []byte) memory.Fault {
	m := q.receiveMemory()
	if k := q.resp.buffer; k == nil || k.early == 0 {
		return m.ScatterBytes(list, offset, n, data)
	}
	for done := uint32(0); done < n; {
		s, whole := pieceOf(list, offset+done, n-done)
		if !whole {
			s.Length = bytesLeft(list, offset+done)
		}
		if s.Length == 0 {
			return memory.ListShort
		}
		if f := q.storeAround(m, psn, s, cutBytes(data, done, done+s.Length)); f != memory.OK {
			return f
		}
		done += s.Length
	}
	return memory.OK
}

// bytesLeft returns how many bytes an element has left from an offset of its list.
func bytesLeft(list []memory.SGE, offset uint32) uint32 {
	for i := range list {
		if offset < list[i].Length {
			return list[i].Length - offset
		}
		offset -= list[i].Length
	}
	return 0
}

// replayKept handles the kept packets whose turn has come.
func (q *QP) replayKept() {
	r := &q.resp
	for q.state != qp.Err {
		s := r.buffer.findPacket(r.expected)
		if s == nil {
			break
		}
		p := r.buffer.restorePacket(s)
		r.early = s.placed
		r.buffer.removePacket(s)
		at := r.expected
		q.performRequest(p)
		r.early = false
		if r.expected == at {
			break // there is no receive request: the packet will be sent again
		}
	}
	r.buffer.dropOldNACKs(r.expected)
}

// dropOldNACKs drops NACKs of packets before expected.
func (k *reorderBuffer) dropOldNACKs(expected PSN) {
	for range k.unsentNACKs.Len() {
		psn := *k.unsentNACKs.First()
		k.unsentNACKs.DropFirst()
		if expected.Before(psn) {
			*k.unsentNACKs.PushReused() = psn
		}
	}
}

// hasUnsentNACK reports whether there are packets without a NACK.
func (k *reorderBuffer) hasUnsentNACK() bool { return k != nil && k.unsentNACKs.Len() > 0 }

// hasNACK reports whether there is a NACK to send next.
func (r *responder) hasNACK() bool { return r.nak == 0 && r.buffer.hasUnsentNACK() }

// makeNACK makes the NACK for the oldest kept packet that has none.
func (q *QP) makeNACK(p *roce.Packet) {
	r := &q.resp
	p.BTH.Opcode, p.BTH.PSN = q.wire.WithOperation(roce.Nack), uint32(r.expected)
	p.AETH = roce.AETH{Syndrome: roce.SyndromeSequence, MSN: r.msn}
	p.Selective.PSN = uint32(*r.buffer.unsentNACKs.First())
	r.buffer.unsentNACKs.DropFirst()
	r.ackDue, r.unacked = false, 0 // it acknowledges the packets before the gap
}
