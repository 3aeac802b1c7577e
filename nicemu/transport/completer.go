package transport

import (
	"encoding/binary"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// isResponse reports whether a packet of a reliable connection is for the requester.
func isResponse(operation roce.Opcode) bool {
	return operation >= roce.ReadFirst && operation <= roce.AtomicAck
}

// handleResponse handles a packet for the requester of a reliable connection (§9.7.6). A packet that
// answers nothing outstanding is a ghost and ignored (§9.7.6.1).
//
// Each response acknowledges the SENDs and WRITEs before the request it answers (§9.7.5.1). It
// cannot answer for earlier READs and atomics, whose responses must have been lost: an implied NAK
// (§9.7.6.1).
func (q *QP) handleResponse(now units.Time, p *roce.Packet) {
	r := &q.req
	psn, was := psnOf(p), r.una
	if r.responses != nil && q.handleLateRefusal(psn, p) {
		return
	}
	if q.state < qp.RTS || psn.From(was) >= r.psnWindow().Len() {
		return
	}
	inFlight := r.inFlight
	operation := p.BTH.Opcode.Operation()
	kind := p.AETH.Syndrome & roce.SyndromeKind
	upto := psn
	if operation == roce.Ack && kind == roce.SyndromeAck {
		upto = psn.Add(1)
	}
	inOrder := q.advanceWindow(upto)
	if inOrder && operation != roce.Ack {
		q.handleFetched(p, operation)
	}
	if q.state == qp.Err {
		return
	}
	if r.una != was {
		q.restartTimer(now, p, was, inFlight)
	}
	switch {
	case q.state == qp.Err:
	case !inOrder:
		q.requestResend(now, NakImplied, psn)
	case operation == roce.Ack && kind != roce.SyndromeAck:
		if p.BTH.MigReq && p.AETH.Syndrome == roce.SyndromeInvalidRequest {
			q.counters.RecoveryMismatch++
		}
		q.handleNAK(now, p.AETH.Syndrome)
	}
}

// advanceWindow takes everything before upto as acknowledged; local operations among it and right after
// it, which take no PSN, complete with it. At a READ or atomic it stops and returns false.
func (q *QP) advanceWindow(upto PSN) bool {
	r := &q.req
	b := r.responses
	if b != nil && b.passed > 0 {
		q.advancePast(upto)
		return true
	}
	for r.una != upto || r.oldestIsDone() {
		w := r.queue.First()
		if w.Op.fetchesData() {
			if b != nil {
				q.advancePast(upto)
			}
			return b != nil
		}
		k, end := r.una.From(w.first), w.packets
		if n := upto.From(w.first); n < end {
			end = n
		}
		r.una = w.first.Add(end)
		r.inFlight -= units.Bytes(min(w.length, end<<q.mtuShift) - k<<q.mtuShift)
		if end == w.packets {
			q.completeOldest(cq.Success)
		}
	}
	return true
}

// restartTimer handles a move of the window: retry counters and the timer restart (§9.7.6.1.3, §9.9.2).
func (q *QP) restartTimer(now units.Time, p *roce.Packet, was PSN, inFlight units.Bytes) {
	r := &q.req
	r.retries, r.rnrTries, r.unready, r.moved = q.attr.RetryCount, q.attr.RNRRetry, false, now
	q.startTimer(now)
	r.sender.OnAcked(r.psnWindow())
	q.flow.acked += uint64(inFlight - r.inFlight)
	if q.flow.timed {
		newest := r.una.Add(roce.PSNMask)
		rtt := r.stamps.timeSince(newest, now)
		if rtt > 0 {
			q.flow.rtt = rtt
		}
		if f := q.config.Feedback; f != nil {
			f.OnAcked(now, Acked{
				PSN: newest, Packets: r.una.From(was), Payload: inFlight - r.inFlight, InFlight: r.inFlight, RTT: rtt,
				Marked: p.BTH.BECN || q.flow.marked, Packet: p,
			})
			q.flow.marked = false
		}
	}
	q.completeLocal()
}

// requestResend asks the recovery to send again, unless it knows already. After an RNR NAK a responder
// sends nothing about packets after the one that it refused (§9.7.5.2.8); Linux's rxe sends a
// sequence error for them (check_psn of drivers/infiniband/sw/rxe/rxe_resp.c), which may arrive
// when all of them have been sent again and would then cost a retry each time. If a packet is
// really missing, the ACK timer handles that, so without a timer the NAK counts.
func (q *QP) requestResend(now units.Time, why Refusal, seen PSN) {
	switch why {
	case NakSequence:
		q.counters.PacketSeqErr++
		if q.req.unready && q.attr.Timeout != 0 {
			return
		}
	case NakSelective:
		q.counters.PacketSeqErr++
	case NakImplied:
		q.counters.ImpliedNakSeqErr++
	}
	if q.req.sender.OnRefusal(q.req.psnWindow(), why, seen) && q.countRetry(now) {
		q.reportLoss(now, false)
		q.sendAgain(now)
	}
}

// handleIRNNACK handles a NACK of IRN: packets before its PSN have arrived, and one packet after it.
// NACKs may overtake each other, so the PSN may be older than what is known.
func (q *QP) handleIRNNACK(now units.Time, p *roce.Packet) {
	r := &q.req
	was, inFlight := r.una, r.inFlight
	upto, seen := psnOf(p), PSN(p.Selective.PSN)
	if q.state < qp.RTS || seen.From(was) >= r.psnWindow().Len() || !upto.Before(seen) {
		return
	}
	q.flow.marked = q.flow.marked || p.BTH.BECN
	if was.Before(upto) {
		q.advanceWindow(upto)
		q.restartTimer(now, p, was, inFlight)
	}
	if q.state != qp.Err && seen != r.una {
		q.requestResend(now, NakSelective, seen)
	}
}

// handleNAK handles a NAK for the oldest PSN of the window (§9.7.5.2).
func (q *QP) handleNAK(now units.Time, syndrome uint8) {
	switch {
	case syndrome&roce.SyndromeKind == roce.SyndromeRNR:
		q.notReady(now, syndrome)
	case syndrome == roce.SyndromeSequence:
		q.requestResend(now, NakSequence, q.req.una)
	case syndrome == roce.SyndromeInvalidRequest:
		q.counters.ReqRemoteInvalidRequest++
		q.failOldest(cq.RemInvReqErr)
	case syndrome == roce.SyndromeRemoteAccess:
		q.counters.ReqRemoteAccessErrors++
		q.failOldest(cq.RemAccessErr)
	case syndrome == roce.SyndromeRemoteOperation:
		q.failOldest(cq.RemOpErr)
	default:
		q.failOldest(cq.BadRespErr) // reserved codes (§9.9.2)
	}
}

// notReady waits as an RNR NAK asks for (§9.7.5.2.8).
func (q *QP) notReady(now units.Time, syndrome uint8) {
	r := &q.req
	if r.rnrTimer != units.Never {
		return
	}
	q.counters.RNRNakRetryErr++
	if q.attr.RNRRetry != infinite {
		if r.rnrTries == 0 {
			q.counters.ReqRNRRetriesExceeded++
			q.failOldest(cq.RNRRetryExcErr)
			return
		}
		r.rnrTries--
	}
	r.unready = true
	r.sender.OnRefusal(r.psnWindow(), NakRNR, r.una)
	r.rnrTimer = now + roce.RNRTime(syndrome)
	q.sendAgain(now)
}

// handleFetched handles the response to the oldest PSN of the window, which must belong to a READ or an
// atomic.
func (q *QP) handleFetched(p *roce.Packet, operation roce.Opcode) {
	r := &q.req
	w := r.queue.First()
	k := r.una.From(w.first)
	var offset, n uint32
	data, ok := p.Payload, false
	switch {
	case w.Op == Read:
		last := k == w.packets-1
		offset, n = k<<q.mtuShift, q.pieceLen(w.length, k)
		ok = operation != roce.AtomicAck && p.Length == int(n) &&
			last == (operation == roce.ReadLast || operation == roce.ReadOnly)
	case w.Op.isAtomic():
		ok = operation == roce.AtomicAck
		binary.LittleEndian.PutUint64(r.old[:], p.FurtherHeaders().AtomicAck.Original) // the host's order
		n, data = atomicLen, r.old[:]
	}
	if !ok {
		q.failOldest(cq.BadRespErr)
		return
	}
	if k == 0 {
		q.chunks.beginRead()
	}
	store := func(at uint64, n uint32, data []byte) memory.Fault {
		return q.config.Memory.ScatterBytes(w.SGL, uint32(at), n, data)
	}
	if f := q.chunks.putRead(uint64(offset), n, data, k == w.packets-1, store); f != memory.OK {
		q.failOldest(f.Status(memory.Local))
		return
	}
	if w.Op == Read {
		q.counters.PayloadReceived += uint64(n)
	}
	r.una = r.una.Add(1)
	if k == w.packets-1 {
		q.completeOldest(cq.Success)
	}
}
