package uverbs

import (
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// queue is a queue pair or a shared receive queue that a process posts to.
type queue struct {
	session *session
	context *opened
	qp      *nicemu.QP
	srq     *nicemu.SRQ // nil for a queue pair
	handle  uint32
	number  uint32 // in the doorbell page
	mem     shm
	sends   ring
	recvs   ring
	groups  []qp.GID
	sendCQ  *completions
	shared  *queue // its shared receive queue, or nil
	users   int    // queue pairs that use it

	target *sharedQP // of type XRC_RECV; else nil: it has no rings, and no number
	xrcd   *openXRCD // its XRC domain, or nil

	datagrams bool // it is of type UD
	waiting   bool // it is in session.pending
}

// ring is a ring that a process posts to.
type ring struct {
	index  int // offset of the number of entries posted
	slots  []byte
	stride int
	mask   uint32
	sges   int // elements of an entry
	taken  uint32
}

// layOut places two rings behind the first page.
func (k *queue) layOut(name string, sends, sendStride, recvs, recvStride int) (fd int, err error) {
	if k.mem, fd, err = k.session.server.share(name, queueBytes+sends*sendStride+recvs*recvStride); err != nil {
		return -1, err
	}
	b := k.mem.bytes[queueBytes:]
	k.sends = ring{index: sendIndex, slots: b[:sends*sendStride], stride: sendStride, mask: uint32(sends - 1)}
	k.recvs = ring{index: recvIndex, slots: b[sends*sendStride:], stride: recvStride, mask: uint32(recvs - 1)}
	return fd, nil
}

// enlistQueue assigns a queue its number in the doorbell page.
func (x *session) enlistQueue(k *queue) error {
	if n := len(x.free); n > 0 {
		k.number = x.free[n-1]
		x.free = x.free[:n-1]
		x.queues[k.number] = k
		return nil
	}
	if len(x.queues) == maxQueues {
		return fmt.Errorf("%w: a process can have at most %d queue pairs and shared receive queues", syscall.ENOMEM, maxQueues)
	}
	k.number = uint32(len(x.queues))
	x.queues = append(x.queues, k)
	return nil
}

func (x *session) strikeQueue(k *queue) {
	x.queues[k.number] = nil
	x.free = append(x.free, k.number)
}

// findPair finds a queue pair.
func (x *session) findPair(handle uint32) (*queue, error) {
	k, err := getObject[*queue](x, handle, "queue pair")
	if err == nil && k.qp == nil {
		err = fmt.Errorf("%w: %d is a shared receive queue", syscall.ENOENT, handle)
	}
	return k, err
}

func (x *session) findSRQ(handle uint32) (*queue, error) {
	k, err := getObject[*queue](x, handle, "shared receive queue")
	if err == nil && k.srq == nil {
		err = fmt.Errorf("%w: %d is a queue pair", syscall.ENOENT, handle)
	}
	return k, err
}

// findParts finds the objects for a new queue pair.
func (x *session) findParts(q *createQP) (d *domain, send, recv *completions, srq *queue, err error) {
	if d, err = getObject[*domain](x, q.PD, "protection domain"); err != nil {
		return
	}
	if send, err = getObject[*completions](x, q.SendCQ, "completion queue"); err != nil {
		return
	}
	if recv = send; q.Type == uint32(qp.XRCSend) {
		// It has no receives.
	} else if recv, err = getObject[*completions](x, q.RecvCQ, "completion queue"); err != nil {
		return
	}
	if q.SRQ != 0 {
		srq, err = x.findSRQ(q.SRQ)
	}
	for _, other := range []*opened{send.context, recv.context} {
		if err == nil && other.Device != d.context.Device {
			err = fmt.Errorf("%w: the completion queues and the protection domain are of different devices", syscall.EINVAL)
		}
	}
	return
}

func (x *session) createQP(q *createQP) answer {
	if q.Type == uint32(qp.XRCRecv) {
		return x.createTarget(q)
	}
	d, send, recv, srq, err := x.findParts(q)
	if err != nil {
		return failedAnswer(err)
	}
	for _, n := range []uint32{q.MaxSendWR, q.MaxRecvWR, q.MaxSendSGE, q.MaxRecvSGE, q.MaxInline, q.Type} {
		if n > 1<<30 {
			return failedAnswer(fmt.Errorf("%w: %d exceeds all limits", syscall.EINVAL, n))
		}
	}
	if q.Type > uint32(qp.XRCRecv) {
		return failedAnswer(fmt.Errorf("%w: qp_type is %d: it can be IBV_QPT_RC (2), IBV_QPT_UC (3), IBV_QPT_UD (4), IBV_QPT_XRC_SEND (9) or IBV_QPT_XRC_RECV (10)", syscall.EOPNOTSUPP, q.Type))
	}
	c := nicemu.QPConfig{
		Type: qp.Type(q.Type), SendCQ: send.cq, RecvCQ: recv.cq, SignalAll: q.SignalAll != 0,
		Cap: qp.Cap{
			MaxSendWR: int(q.MaxSendWR), MaxRecvWR: int(q.MaxRecvWR), MaxSendSGE: int(q.MaxSendSGE), MaxRecvSGE: int(q.MaxRecvSGE), MaxInline: int(q.MaxInline),
		},
		BlockSelfMulticast: q.BlockSelfMcast != 0,
		ChunkSize:          chunk,
	}
	if c.Type == qp.XRCSend {
		c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE = 0, 0
	}
	if srq != nil {
		c.SRQ, c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE = srq.srq, 0, 0
	}
	if c.Cap.MaxInline <= d.context.Limits().Inline { // otherwise it is refused
		c.Cap.MaxInline = min(sendStride(c.Cap)-sendLen, d.context.Limits().Inline)
	}
	k := &queue{session: x, context: d.context, sendCQ: send, shared: srq, datagrams: c.Type == qp.UD}
	if k.qp, err = d.pd.CreateQP(c); err != nil {
		return failedAnswer(err)
	}
	return x.finishQP(k, c.Cap)
}

// sendStride returns the length of an entry of the send queue. Inline bytes replace the list, and
// may fill it: drivers grant what fits, and rdma_xclient relies on it.
func sendStride(c qp.Cap) int { return slotStride(sendLen + max(sgeLen*c.MaxSendSGE, c.MaxInline)) }

// chunk is the amount of a message copied from or to a process at once: a system call costs as much
// as copying some pages.
const chunk = 64 << 10

// finishQP gives a queue pair its rings.
func (x *session) finishQP(k *queue, c qp.Cap) answer {
	a := qpAnswer{
		QPNum: k.qp.Number(), MaxSendWR: uint32(c.MaxSendWR), MaxRecvWR: uint32(c.MaxRecvWR), MaxSendSGE: uint32(c.MaxSendSGE), MaxRecvSGE: uint32(c.MaxRecvSGE),
		MaxInline: uint32(c.MaxInline), SendSlots: uint32(ringSlots(c.MaxSendWR)), RecvSlots: uint32(ringSlots(c.MaxRecvWR)),
		SendStride: uint32(sendStride(c)), RecvStride: uint32(slotStride(recvLen + sgeLen*c.MaxRecvSGE)),
	}
	fd, err := k.layOut("qp", int(a.SendSlots), int(a.SendStride), int(a.RecvSlots), int(a.RecvStride))
	if err == nil {
		if err = x.enlistQueue(k); err != nil {
			k.mem.closeMemory()
			unix.Close(fd)
		}
	}
	if err != nil {
		_ = k.qp.Destroy()
		return failedAnswer(err)
	}
	k.sends.sges, k.recvs.sges = c.MaxSendSGE, c.MaxRecvSGE
	k.handle = x.addObject(k)
	x.server.qps[k.qp] = k
	if k.shared != nil {
		k.shared.users++
	}
	a.Handle, a.Number = k.handle, k.number
	return answer{body: a, fds: []int{fd}}
}

func (x *session) modifyQP(q *qpAttr) answer {
	k, err := x.findPair(q.QP)
	if err != nil {
		return failedAnswer(err)
	}
	m := maskOf(k.qp.Type(), q.Mask)
	if err := q.checkRanges(m); err != nil {
		return failedAnswer(err)
	}
	a := attrOf(q)
	if m&qp.MaskAV != 0 && m&qp.MaskState != 0 && a.State == qp.RTR {
		// The kernel takes the queue pair's port there, since programs leave that of the
		// address vector unset (modify_qp in uverbs_cmd.c).
		old, _ := k.qp.Query()
		a.AV.Port = old.Port
	}
	if err := k.qp.Modify(a, m); err != nil {
		return failedAnswer(err)
	}
	if m&qp.MaskState != 0 && a.State == qp.Reset && k.target == nil {
		k.sends.taken, k.recvs.taken = 0, 0
		k.mem.wordAt(sendIndex).Store(0)
		k.mem.wordAt(recvIndex).Store(0)
	}
	return answer{body: handleMsg{Handle: uint32(k.qp.State())}}
}

// maskOf returns the attributes that a program sets. Programs give both ends of XRC all attributes of
// RC; the kernel ignores those of the other end (modify_qp_mask in uverbs_cmd.c).
func maskOf(t qp.Type, mask uint32) qp.Mask {
	switch m := qp.Mask(mask); t {
	case qp.XRCSend:
		return m &^ (qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer)
	case qp.XRCRecv:
		return m &^ (qp.MaskMaxQPRdAtomic | qp.MaskRetryCnt | qp.MaskRNRRetry)
	default:
		return m
	}
}

// checkRanges checks the attributes of a mask whose types in package qp have fewer bits.
func (q *qpAttr) checkRanges(m qp.Mask) error {
	for _, c := range []struct {
		bit        qp.Mask
		name       string
		value, top uint32
	}{
		{qp.MaskState, "qp_state", q.State, uint32(qp.Err)},
		{qp.MaskCurState, "cur_qp_state", q.CurState, uint32(qp.Err)},
		{qp.MaskPathMTU, "path_mtu", q.PathMTU, uint32(qp.MTU4096)},
		{qp.MaskPathMigState, "path_mig_state", q.MigState, uint32(qp.Migrated)},
		{qp.MaskPKeyIndex, "pkey_index", q.PKeyIndex, math.MaxUint16},
	} {
		if m&c.bit != 0 && c.value > c.top {
			return fmt.Errorf("%w: %s is %d: it can be 0 to %d", syscall.EINVAL, c.name, c.value, c.top)
		}
	}
	return nil
}

func (x *session) setRateLimit(q *rateLimitMsg) answer {
	k, err := x.findPair(q.QP)
	if err != nil {
		return failedAnswer(err)
	}
	return doneAnswer(k.qp.SetRateLimit(qp.RateLimit{
		Rate: units.Rate(q.Rate) * units.Kbps, MaxBurst: units.Bytes(q.MaxBurst), TypicalPacket: units.Bytes(q.TypicalPacket),
	}))
}

func attrOf(q *qpAttr) qp.Attr {
	return qp.Attr{
		State: qp.State(q.State), CurState: qp.State(q.CurState), PathMTU: qp.MTU(q.PathMTU), MigState: qp.MigState(q.MigState),
		QKey: q.QKey, RQPSN: q.RQPSN, SQPSN: q.SQPSN, DestQPN: q.DestQPN, Access: q.Access, PKeyIndex: uint16(q.PKeyIndex),
		AV: vectorOf(&q.AH), EnSQDAsyncNotify: q.EnSQDAsyncNotify != 0, MaxRdAtomic: q.MaxRdAtomic, MaxDestRdAtomic: q.MaxDestRdAtomic,
		MinRNRTimer: q.MinRNRTimer, Port: q.Port, Timeout: q.Timeout, RetryCnt: q.RetryCnt, RNRRetry: q.RNRRetry,
	}
}

func attrTo(a *qp.Attr) qpAttr {
	return qpAttr{
		State: uint32(a.State), CurState: uint32(a.CurState), PathMTU: uint32(a.PathMTU), MigState: uint32(a.MigState),
		QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPN, Access: a.Access, PKeyIndex: uint32(a.PKeyIndex),
		AH: attrOfVector(&a.AV), EnSQDAsyncNotify: uint8(boolBit(a.EnSQDAsyncNotify)), SQDraining: uint8(boolBit(a.SQDraining)),
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRNRTimer: a.MinRNRTimer, Port: a.Port, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}

func (x *session) queryQP(q *handleMsg) answer {
	k, err := x.findPair(q.Handle)
	if err != nil {
		return failedAnswer(err)
	}
	a, _ := k.qp.Query()
	return answer{body: attrTo(&a)}
}

func (x *session) destroyQP(q *handleMsg) answer {
	k, err := x.findPair(q.Handle)
	if err != nil {
		return failedAnswer(err)
	}
	return removeObject(x, q.Handle, func() error {
		if len(k.groups) > 0 {
			return fmt.Errorf("%w: queue pair %d is attached to %d multicast groups: detach it first", syscall.EBUSY, k.qp.Number(), len(k.groups))
		}
		k.destroyQueue()
		x.releaseObject(k)
		return nil
	})
}

func (k *queue) detachGroup(g qp.GID) error {
	err := k.qp.DetachMcast(g)
	for i := range k.groups {
		if err == nil && k.groups[i] == g {
			k.groups = append(k.groups[:i], k.groups[i+1:]...)
			break
		}
	}
	return err
}

// destroyQueue ends what the device has of the queue.
func (k *queue) destroyQueue() {
	x := k.session
	switch {
	case k.target != nil:
		k.leaveTarget()
		k.session = nil
		return
	case k.qp != nil:
		for len(k.groups) > 0 {
			_ = k.detachGroup(k.groups[0])
		}
		_ = k.qp.Destroy()
		delete(x.server.qps, k.qp)
		if k.shared != nil {
			k.shared.users--
		}
	default:
		_ = k.srq.Destroy()
		delete(x.server.srqs, k.srq)
		if k.xrcd != nil {
			k.xrcd.users--
		}
	}
	x.strikeQueue(k)
	k.session = nil
}

func (x *session) createSRQ(q *createSRQ) answer {
	d, err := getObject[*domain](x, q.PD, "protection domain")
	if err != nil {
		return failedAnswer(err)
	}
	if q.MaxWR > 1<<30 || q.MaxSGE > 1<<30 {
		return failedAnswer(fmt.Errorf("%w: max_wr is %d, max_sge %d", syscall.EINVAL, q.MaxWR, q.MaxSGE))
	}
	k := &queue{session: x, context: d.context}
	if k.srq, err = x.makeSRQ(k, d, q); err != nil {
		return failedAnswer(err)
	}
	a := srqAnswer{MaxWR: q.MaxWR, MaxSGE: q.MaxSGE, Slots: uint32(ringSlots(int(q.MaxWR))), Stride: uint32(slotStride(recvLen + sgeLen*int(q.MaxSGE)))}
	fd, err := k.layOut("srq", 0, 0, int(a.Slots), int(a.Stride))
	if err == nil {
		if err = x.enlistQueue(k); err != nil {
			k.mem.closeMemory()
			unix.Close(fd)
		}
	}
	if err != nil {
		_ = k.srq.Destroy()
		return failedAnswer(err)
	}
	k.recvs.sges = int(q.MaxSGE)
	k.handle = x.addObject(k)
	x.server.srqs[k.srq] = k
	if k.xrcd != nil {
		k.xrcd.users++
	}
	a.Handle, a.Number, a.SRQNum = k.handle, k.number, k.srq.Number()
	return answer{body: a, fds: []int{fd}}
}

// makeSRQ makes the NIC's shared receive queue, of an XRC domain or not.
func (x *session) makeSRQ(k *queue, d *domain, q *createSRQ) (*nicemu.SRQ, error) {
	a := qp.SRQAttr{MaxWR: int(q.MaxWR), MaxSGE: int(q.MaxSGE)}
	if q.XRCD == 0 {
		return d.pd.CreateSRQ(a)
	}
	var err error
	if k.xrcd, err = getObject[*openXRCD](x, q.XRCD, "XRC domain"); err != nil {
		return nil, err
	}
	c, err := getObject[*completions](x, q.CQ, "completion queue")
	if err != nil {
		return nil, err
	}
	return d.pd.CreateXRCSRQ(a, k.xrcd.XRCD, c.cq)
}

func (x *session) modifySRQ(q *modifySRQ) answer {
	k, err := x.findSRQ(q.SRQ)
	if err != nil {
		return failedAnswer(err)
	}
	if qp.SRQMask(q.Mask)&qp.SRQMaxWR != 0 || q.Mask > 0xff {
		return failedAnswer(fmt.Errorf("%w: the device cannot resize a shared receive queue: leave IBV_SRQ_MAX_WR out", syscall.EOPNOTSUPP))
	}
	return doneAnswer(k.srq.Modify(qp.SRQAttr{Limit: int(q.Limit)}, qp.SRQMask(q.Mask)))
}

func (x *session) querySRQ(q *handleMsg) answer {
	k, err := x.findSRQ(q.Handle)
	if err != nil {
		return failedAnswer(err)
	}
	a := k.srq.Query()
	return answer{body: srqAttr{MaxWR: uint32(a.MaxWR), MaxSGE: uint32(a.MaxSGE), Limit: uint32(a.Limit)}}
}

func (x *session) destroySRQ(q *handleMsg) answer {
	k, err := x.findSRQ(q.Handle)
	if err != nil {
		return failedAnswer(err)
	}
	if k.users > 0 {
		return failedAnswer(fmt.Errorf("%w: %d queue pairs use the shared receive queue: destroy them first", syscall.EBUSY, k.users))
	}
	return removeObject(x, q.Handle, func() error {
		k.destroyQueue()
		x.releaseObject(k)
		return nil
	})
}
