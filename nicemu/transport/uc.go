package transport

import (
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/wire/roce"
)

// handleUC handles a packet of an unreliable connection (§9.8.2). After a gap the rest of the
// message is dropped silently, and the next message goes to the same receive request. A message
// that cannot be received, or does not fit, is dropped in the same way.
func (q *QP) handleUC(p *roce.Packet) {
	r := &q.resp
	s := shapes[p.BTH.Opcode.Operation()]
	if s.kind == none || s.invalidate {
		return
	}
	if psnOf(p) != r.expected {
		q.counters.OutOfSequence++
		r.skipping, r.message = true, none
	}
	r.expected = psnOf(p).Add(1)
	if s.first {
		r.skipping, r.message = false, none
	}
	if r.skipping {
		return
	}
	switch o, f := q.placePayload(p, s); o {
	case fine:
		if s.last {
			q.finishMessage(p, s)
		}
		return
	case noReceive:
		q.counters.OutOfBuffer++
	case noAccess:
		q.counters.RespRemoteAccessErrors++
	case tooLong:
		q.counters.RespLocalLengthError++ // §9.9.3, class D
	case badList:
		q.receiveError(f.Status(memory.Local))
		q.toError()
	}
	r.skipping, r.message = true, none
}
