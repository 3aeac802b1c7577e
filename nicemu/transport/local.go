package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
)

// A local operation is done when the requester reaches it: when all packets of earlier messages
// have been sent once (rdma_rxe, rxe_do_local_ops of rxe_req.c). Later work requests wait until
// then. With a fence it waits for READs and atomics, as others do (§10.8.3.3). LocalInvalidate
// waits for all earlier requests to complete, which the specification leaves to a separate
// indicator (local invalidate fence, §10.6.5.1), which no verb has; rdma_rxe always does so. It
// completes in its turn; if it is flushed while it waits for its turn, it has been done
// nevertheless.

// localOperation returns the local operation to be done now, if any.
func (q *QP) localOperation() *sendWQE {
	r := &q.req
	if r.next != r.free || r.numbered == r.queue.Len() || r.newestFails() {
		return nil
	}
	w := r.queue.At(r.numbered)
	if !w.Op.isLocal() || !q.mayBegin(w) || w.Op == LocalInvalidate && r.numbered > 0 {
		return nil
	}
	return w
}

// oldestIsDone reports whether the oldest work request is a local operation that was done without a fault.
func (r *requester) oldestIsDone() bool {
	if r.numbered == 0 {
		return false
	}
	w := r.queue.First()
	return w.Op.isLocal() && w.fault == cq.Success
}

// executeLocal does a local operation.
func (q *QP) executeLocal(w *sendWQE) {
	r := &q.req
	w.first = r.free
	if r.responses != nil {
		w.answer = r.responses.free
	}
	r.numbered++
	if w.Op == BindWindow {
		_, f := q.config.Memory.BindWindow(w.Bind)
		w.fault = f.Status(memory.Bind)
		return
	}
	w.fault = q.config.Memory.InvalidateKey(w.RKey).Status(memory.LocalInvalidate)
}

// completeLocal does the work that needs no packet, once its turn has come: local operations, and the
// failure of a work request with a fault (§9.9.2). It reports when the queue is drained.
func (q *QP) completeLocal() {
	for more := true; more; {
		w := q.localOperation()
		if w != nil {
			q.executeLocal(w)
		}
		more = q.endOldest() || w != nil
	}
	if q.state == qp.SQD && !q.drained && !q.underWay() {
		q.drained = true
		q.raiseEvent(qp.SQDrained)
	}
}

// endOldest completes the oldest work request if it has a fault, or was done here, and reports whether
// there may be more to do.
func (q *QP) endOldest() bool {
	r := &q.req
	if r.queue.Len() == 0 || q.state != qp.RTS && r.numbered == 0 {
		return false
	}
	switch w := r.queue.First(); {
	case w.fault != cq.Success && r.numbered == 0 && q.mustHold(w):
	case w.fault != cq.Success:
		q.failOldest(w.fault)
	case r.oldestIsDone():
		q.completeOldest(cq.Success)
		return true
	}
	return false
}
