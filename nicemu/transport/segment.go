package transport

import (
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// atomicLen is the size of the operand of atomics, in bytes.
const atomicLen = 8

// Opcodes of the packets of a message: First, Middle, Last, Only (§9.2.1, §9.7.3).
var operations = [...][4]roce.Opcode{
	Send:           {roce.SendFirst, roce.SendMiddle, roce.SendLast, roce.SendOnly},
	SendImm:        {roce.SendFirst, roce.SendMiddle, roce.SendLastImm, roce.SendOnlyImm},
	SendInvalidate: {roce.SendFirst, roce.SendMiddle, roce.SendLastInv, roce.SendOnlyInv},
	Write:          {roce.WriteFirst, roce.WriteMiddle, roce.WriteLast, roce.WriteOnly},
	WriteImm:       {roce.WriteFirst, roce.WriteMiddle, roce.WriteLastImm, roce.WriteOnlyImm},
	Read:           {roce.ReadRequest, roce.ReadRequest, roce.ReadRequest, roce.ReadRequest},
	CompareSwap:    {roce.CompareSwap, roce.CompareSwap, roce.CompareSwap, roce.CompareSwap},
	FetchAdd:       {roce.FetchAdd, roce.FetchAdd, roce.FetchAdd, roce.FetchAdd},
}

// positionOf returns the index of the k-th of n packets in a row of operations.
func positionOf(k, n uint32) int {
	switch {
	case n == 1:
		return 3
	case k == 0:
		return 0
	case k == n-1:
		return 2
	}
	return 1
}

func (q *QP) opcodeOf(w *sendWQE, k uint32) roce.Opcode {
	return q.wire.WithOperation(operations[w.Op][positionOf(k, w.packets)])
}

// requestBytes returns the length of the request packet of a PSN.
func (q *QP) requestBytes(w *sendWQE, psn PSN) units.Bytes {
	k := psn.From(w.first)
	n := uint32(0)
	if !w.Op.fetchesData() {
		n = q.pieceLen(w.length, k)
	}
	return units.Bytes(q.opcodeOf(w, k).PacketLen(int(n)))
}

// payloadLen returns the payload length of the request packet of a PSN.
func (q *QP) payloadLen(w *sendWQE, psn PSN) units.Bytes {
	if w.Op.fetchesData() {
		return 0
	}
	return units.Bytes(q.pieceLen(w.length, psn.From(w.first)))
}

// makeSegment makes the request packet of a PSN, which is the k-th of its message. A READ that is sent
// again asks for the missing part. The fault says why the payload cannot be read.
func (q *QP) makeSegment(w *sendWQE, psn PSN, p *roce.Packet) (f memory.Fault) {
	k := psn.From(w.first)
	last := k == w.packets-1
	p.BTH.Opcode = q.opcodeOf(w, k)
	p.BTH.PSN = uint32(psn)
	p.BTH.AckReq = q.asksForAck(w, psn, last)
	if q.config.Service == roce.XRC {
		p.FurtherHeaders().XRC.SRQ = w.SRQ
	}
	if w.Op.fetchesData() {
		q.buildRequest(w, k, p)
		p.Selective.PSN = uint32(w.answer)
		return memory.OK
	}
	if last {
		p.BTH.Solicited = w.Flags&Solicited != 0
		switch w.Op {
		case SendImm, WriteImm:
			p.ImmDt.Data = w.Imm
		case SendInvalidate:
			p.IETH.RKey = w.RKey
		}
	}
	offset, n := k<<q.mtuShift, q.pieceLen(w.length, k)
	switch {
	case q.keepsDisordered():
		q.locateForPeer(w, k, p)
	case k == 0 && w.Op.isWrite():
		p.RETH = roce.RETH{VA: w.RemoteVA, RKey: w.RKey, Length: w.length}
	}
	if q.config.Service == roce.UD {
		q.fillDestination(w, p)
	}
	p.Length = int(n)
	if len(w.Inline) > 0 {
		p.Payload = append(p.Payload, w.Inline[offset:offset+n]...)
		return memory.OK
	}
	load := func(offset, n uint32, dst []byte) ([]byte, memory.Fault) {
		return q.config.Memory.GatherBytes(w.SGL, offset, n, dst)
	}
	p.Payload, f = q.chunks.appendSend(p.Payload, w.first, w.length, offset, n, load)
	return f
}

// locateForPeer tells the peer where the payload of the k-th packet of a message belongs, whatever
// else has arrived. Packets after a message with invalidate wait for it there, since its key may be
// theirs, and so do those after an atomic, which must find older data.
func (q *QP) locateForPeer(w *sendWQE, k uint32, p *roce.Packet) {
	if w.Op.isWrite() {
		offset := k << q.mtuShift
		p.RETH = roce.RETH{VA: w.RemoteVA + uint64(offset), RKey: w.RKey, Length: w.length - offset}
	} else {
		p.Send = roce.SendETH{Receive: w.receive, Packet: k}
	}
	b := q.req.responses
	p.BTH.MigReq = b.barred && !b.barrier.Before(q.req.una)
}

// buildRequest fills in the request of a READ or atomic.
func (q *QP) buildRequest(w *sendWQE, k uint32, p *roce.Packet) {
	if w.Op == Read {
		done := k << q.mtuShift
		p.RETH = roce.RETH{VA: w.RemoteVA + uint64(done), RKey: w.RKey, Length: w.length - done}
		return
	}
	p.FurtherHeaders().Atomic = roce.AtomicETH{VA: w.RemoteVA, RKey: w.RKey, Swap: w.Swap, Compare: w.Compare}
}

// asksForAck reports whether a packet asks for an acknowledgement: the end of a message does, and so do
// packets at regular distances (§9.7.3). rdma_rxe sets AckReq in packets of UC and UD too, where it
// means nothing. With IRN all packets do.
func (q *QP) asksForAck(w *sendWQE, psn PSN, last bool) bool {
	if !q.isReliable() {
		return false
	}
	every := q.config.AskEvery
	return last || q.keepsDisordered() || w.Op.fetchesData() || every > 0 && int(psn)%every == 0
}
