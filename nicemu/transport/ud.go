package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/protocols/roce"
)

// qkeyOwn is the bit of a work request's Q_Key that says to send the queue
// pair's own (§10.2.5).
const qkeyOwn = 1 << 31

// address fills in where a datagram goes.
func (q *QP) address(w *sendWQE, p *Packet) {
	p.BTH.DestQP, p.Path = w.DestQP, w.Path
	p.DETH = roce.DETH{QKey: w.QKey, SourceQP: q.config.Number}
	if w.QKey&qkeyOwn != 0 {
		p.DETH.QKey = q.attr.QKey
	}
}

// datagram takes a packet of an unreliable datagram queue pair (§9.8.3). It is
// dropped without a word if it has another Q_Key or nothing can receive it. The
// GRH comes first in the receive buffer.
func (q *QP) datagram(p *Packet) {
	r := &q.resp
	s := shapes[p.BTH.Opcode.Operation()]
	switch {
	case p.DETH.QKey != q.attr.QKey: // §9.6.1
		q.counters.QKeyViolations++
		return
	case s.kind != sending || !s.first || !s.last || s.invalidate || p.Length > q.mtu():
		return
	case !q.takeReceive():
		q.counters.OutOfBuffer++
		return
	}
	n := GRHBytes + p.Length
	switch {
	case uint64(n) > listLength(r.recv.SGL):
		q.counters.RespLocalLengthError++
		q.receiveError(cq.LocLenErr)
		q.toError()
		return
	case !q.storeDatagram(p):
		q.receiveError(cq.LocProtErr)
		q.toError()
		return
	}
	c := Completion{Op: cq.Recv, Length: n, GRH: true, SourceQP: p.DETH.SourceQP, Solicited: p.BTH.Solicited}
	if s.imm {
		c.HasImm, c.Imm = true, p.Imm
	}
	q.received(c)
}

func (q *QP) storeDatagram(p *Packet) bool {
	var grh []byte
	if p.GRH != nil {
		grh = p.GRH[:]
	}
	list := q.resp.recv.SGL
	return scatter(q.config.Memory, list, 0, GRHBytes, grh) &&
		scatter(q.config.Memory, list, GRHBytes, p.Length, p.Data)
}
