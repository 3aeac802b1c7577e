package transport

import (
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/protocols/roce"
)

// atomicLength is what atomic operations work on, in bytes.
const atomicLength = 8

// Which operation the packets of a message have: First, Middle, Last, Only
// (§9.7.3, table 38).
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

// position is where the k-th of n packets stands: an index of a row of
// operations.
func position(k, n uint32) int {
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

func (q *QP) opcode(w *sendWQE, k uint32) roce.Opcode {
	return q.config.Service.With(operations[w.Op][position(k, w.packets)])
}

// requestBytes is the length of the request packet of a PSN.
func (q *QP) requestBytes(w *sendWQE, psn PSN) units.Bytes {
	k := psn.From(w.first)
	n := headerBytes(q.opcode(w, k))
	if !w.Op.fetches() {
		length := q.piece(w.length, k)
		n += units.Bytes(length + uint32(pad(length)))
	}
	return n
}

// segment makes the request packet of a PSN, which is the k-th of its message. A
// READ that is sent again asks for what has not come yet. It fails if the
// payload cannot be read.
func (q *QP) segment(w *sendWQE, psn PSN, p *Packet) (ok bool) {
	k := psn.From(w.first)
	last := k == w.packets-1
	p.BTH.Opcode = q.opcode(w, k)
	p.BTH.PSN = uint32(psn)
	p.BTH.AckReq = q.asks(w, psn, last)
	if w.Op.fetches() {
		q.ask(w, k, p)
		return true
	}
	if last {
		p.BTH.Solicited = w.Flags&Solicited != 0
		switch w.Op {
		case SendImm, WriteImm:
			p.Imm = w.Imm
		case SendInvalidate:
			p.Imm = w.RKey
		}
	}
	if k == 0 && w.Op.write() {
		p.RETH = roce.RETH{VA: w.RemoteVA, RKey: w.RKey, Length: w.length}
	}
	if q.config.Service == roce.UD {
		q.address(w, p)
	}
	p.Length = q.piece(w.length, k)
	offset := k << q.mtuShift
	if len(w.Inline) > 0 {
		p.Data = append(p.Data, w.Inline[offset:offset+p.Length]...)
		return true
	}
	p.Data, ok = gather(q.config.Memory, w.SGL, offset, p.Length, p.Data)
	return ok
}

// ask fills in what a READ or atomic asks for.
func (q *QP) ask(w *sendWQE, k uint32, p *Packet) {
	if w.Op == Read {
		done := k << q.mtuShift
		p.RETH = roce.RETH{VA: w.RemoteVA + uint64(done), RKey: w.RKey, Length: w.length - done}
		return
	}
	p.Atomic = roce.AtomicETH{VA: w.RemoteVA, RKey: w.RKey, Swap: w.Swap, Compare: w.Compare}
}

// asks tells whether a packet asks for an acknowledgement: the end of a message
// does, and so do packets at regular distances (§9.7.3).
func (q *QP) asks(w *sendWQE, psn PSN, last bool) bool {
	if q.config.Service != roce.RC {
		return false
	}
	every := q.config.AskEvery
	return last || w.Op.fetches() || every > 0 && int(psn)%every == 0
}
