package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/wire/roce"
)

// GRHLen is the length of a GRH in front of the payload of a datagram, in bytes. With RoCEv2 it
// holds an IPv6 header, or an IPv4 header in the last 20 bytes (annex A17).
const GRHLen = 40

// qkeyOwn is the bit of a work request's Q_Key that selects the queue pair's own Q_Key (§10.2.5).
const qkeyOwn = 1 << 31

// fillDestination fills in the destination of a datagram.
func (q *QP) fillDestination(w *sendWQE, p *roce.Packet) {
	p.BTH.DestQP = w.DestQP
	h := &p.FurtherHeaders().DETH
	*h = roce.DETH{QKey: w.QKey, SourceQP: q.config.Number}
	if w.QKey&qkeyOwn != 0 {
		h.QKey = q.attr.QKey
	}
}

// handleUD handles a packet of an unreliable datagram queue pair (§9.8.3). It is dropped silently
// if it has another Q_Key, if nothing can receive it, or if it does not fit. The GRH comes first in the receive buffer.
func (q *QP) handleUD(p *roce.Packet, grh *[GRHLen]byte) {
	r := &q.resp
	s, h := shapes[p.BTH.Opcode.Operation()], &p.FurtherHeaders().DETH
	switch {
	case h.QKey != q.attr.QKey: // §9.6.1
		q.counters.QKeyViolations++
		return
	case s.kind != sending || !s.first || !s.last || s.invalidate || p.Length > int(q.pathMTU()):
		return
	case !q.takeReceive():
		q.counters.OutOfBuffer++
		return
	}
	n := GRHLen + uint32(p.Length)
	if uint64(n) > memory.ListLength(r.recv.SGL) {
		q.counters.RespLocalLengthError++ // the receive request waits for another (§9.9.3, class D)
		return
	}
	if f := q.storeDatagram(p, grh); f != memory.OK {
		q.receiveError(f.Status(memory.Local))
		q.toError()
		return
	}
	q.counters.PayloadReceived += uint64(p.Length)
	c := cq.Completion{Opcode: cq.Recv, ByteLen: n, Flags: cq.GRH, SrcQP: h.SourceQP, SL: headerKind(grh)}
	if s.imm {
		c.Flags, c.Imm = cq.GRH|cq.WithImm, p.ImmDt.Data
	}
	q.completeReceive(c, p.BTH.Solicited)
}

// headerKind returns Completion.SL for the header in front of a datagram.
func headerKind(grh *[GRHLen]byte) uint8 {
	switch {
	case grh == nil:
		return 0
	case grh[0]>>4 == 6:
		return cq.HeaderIPv6
	}
	return cq.HeaderIPv4
}

func (q *QP) storeDatagram(p *roce.Packet, grh *[GRHLen]byte) memory.Fault {
	list, m := q.resp.recv.SGL, q.config.ReceiveMemory
	var header []byte
	if grh != nil {
		header = grh[:]
	}
	if f := m.ScatterBytes(list, 0, GRHLen, header); f != memory.OK {
		return f
	}
	return m.ScatterBytes(list, GRHLen, uint32(p.Length), p.Payload)
}
