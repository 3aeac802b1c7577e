package transport

import "github.com/weftlab/weft/nicemu/cq"

// unreliable takes a packet of an unreliable connection (§9.8.2). After a gap
// the rest of the message is dropped without a word, and the next message goes
// to the same receive request. So is a message that cannot be received.
func (q *QP) unreliable(p *Packet) {
	r := &q.resp
	s := shapes[p.BTH.Opcode.Operation()]
	if s.kind == none || s.invalidate {
		return
	}
	if p.PSN() != r.expected {
		q.counters.OutOfSequence++
		r.skipping, r.message = true, none
	}
	r.expected = p.PSN().Add(1)
	if s.first {
		r.skipping, r.message = false, none
	}
	if r.skipping {
		return
	}
	switch q.place(p, s) {
	case fine:
		if s.last {
			q.finish(p, s)
		}
		return
	case noReceive:
		q.counters.OutOfBuffer++
	case noAccess:
		q.counters.RespRemoteAccessErrors++
	case tooLong:
		q.counters.RespLocalLengthError++
		q.receiveError(cq.LocLenErr)
		q.toError()
	case badList:
		q.receiveError(cq.LocProtErr)
		q.toError()
	}
	r.skipping, r.message = true, none
}
