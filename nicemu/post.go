package nicemu

import (
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
)

// PostSend adds a work request to the send queue (ibv_post_send(3)). It is copied, with its list;
// the bytes are read when they are sent or retransmitted. ENOMEM: the queue is full; EINVAL: the
// state does not allow it, or the work request is invalid (the errors of package transport). In SQE
// and ERR it is flushed.
func (q *QP) PostSend(wr *SendWR) error {
	if q.layered != nil {
		return q.postLayered(wr)
	}
	q.ringDoorbell()
	err := q.postSend(wr)
	q.startPosted()
	return err
}

// PostSendList adds work requests in order, up to the first one refused, and returns how many were
// added: with an error list[posted] is bad_wr.
func (q *QP) PostSendList(list []SendWR) (posted int, err error) {
	if q.layered != nil {
		return postEach(list, q.postLayered)
	}
	q.ringDoorbell()
	posted, err = postEach(list, q.postSend)
	q.startPosted()
	return posted, err
}

func (q *QP) postSend(wr *SendWR) error {
	if q.config.Type == qp.UD {
		if err := q.checkPath(wr); err != nil {
			return err
		}
	}
	if err := memory.CheckCount(wr.SGL, q.config.Cap.MaxSendSGE); err != nil {
		return err
	}
	return q.engine.PostSend(wr)
}

// PostRecv adds a work request to the receive queue (ibv_post_recv(3)). It is
// copied. ENOMEM: the queue is full; EINVAL: the state is RESET, the list has too
// many elements, or there is a shared receive queue to post to. In ERR it is
// flushed.
func (q *QP) PostRecv(wr *RecvWR) error {
	if q.layered != nil {
		return q.postRecvLayered(wr)
	}
	if err := q.postRecv(wr); err != nil {
		return err
	}
	q.startPosted()
	return nil
}

// PostRecvList adds work requests in order, up to the first one refused, and returns how many were
// added: with an error list[posted] is bad_wr.
func (q *QP) PostRecvList(list []RecvWR) (posted int, err error) {
	if q.layered != nil {
		return postEach(list, q.postRecvLayered)
	}
	posted, err = postEach(list, q.postRecv)
	q.startPosted()
	return posted, err
}

func (q *QP) postRecv(wr *RecvWR) error {
	if err := memory.CheckCount(wr.SGL, q.config.Cap.MaxRecvSGE); err != nil {
		return err
	}
	return q.engine.PostRecv(wr)
}

// startPosted starts the NIC on posted work requests.
func (q *QP) startPosted() {
	q.device.rescheduleQP(q.device.Now(), q)
	q.device.armTimer()
}

// postEach posts a list up to the first work request that is refused.
func postEach[WR any](list []WR, post func(*WR) error) (posted int, err error) {
	for i := range list {
		if err := post(&list[i]); err != nil {
			return i, err
		}
	}
	return len(list), nil
}

// BindMW binds a window of type 1 (ibv_bind_mw(3)): a shorthand for the work request, which
// completes as others do. It returns the window's key from then on; b.Tag is ignored.
func (q *QP) BindMW(id uint64, b Binding, flags transport.Flags) (rkey uint32, err error) {
	b.Tag = uint8(b.Window) + 1
	return b.Key(), q.PostSend(&SendWR{ID: id, Op: transport.BindWindow, Flags: flags, Bind: b})
}
