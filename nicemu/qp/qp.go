package qp

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
)

// Numbers of queue pairs have 24 bits. 0 and 1 are for management, the highest is the destination
// of multicast packets.
const (
	GSINumber = 1
	MinNumber = 2
	MaxNumber = 1<<24 - 2
)

// Cap is the size of a queue pair's queues (ibv_qp_cap).
type Cap struct {
	MaxSendWR  int // work requests
	MaxRecvWR  int // work requests
	MaxSendSGE int // elements of a list
	MaxRecvSGE int // elements of a list
	MaxInline  int // max_inline_data, bytes
}

// Config is the configuration of a new queue pair (ibv_qp_init_attr).
type Config struct {
	Type      Type
	PD        *memory.PD // nil for XRCRecv
	SendCQ    *cq.CQ     // nil for XRCRecv
	RecvCQ    *cq.CQ     // nil for XRCSend and XRCRecv
	SRQ       *SRQ       // nil if it has a separate receive queue, or for XRC
	XRCD      *XRCD      // of XRCRecv; else nil
	Cap       Cap
	SignalAll bool // sq_sig_all: every work request makes a completion
}

// QP is a queue pair as verbs see it. Make it with New.
type QP struct {
	limits *Limits
	config Config
	attr   Attr
	number uint32
	groups int // multicast groups it is attached to
	ended  bool
}

// New makes a queue pair in state RESET (ibv_create_qp(3)). Its queues have exactly the requested
// sizes; with a shared receive queue and for XRC the sizes of queues that it does not have are
// ignored and become 0. The number is 1 for GSI, and MinNumber to MaxNumber for others.
func New(number uint32, c Config, l *Limits) (*QP, error) {
	if err := c.checkConfig(number, l); err != nil {
		return nil, err
	}
	switch {
	case c.Type == XRCRecv:
		c.Cap = Cap{}
		c.XRCD.users++
		return &QP{limits: l, config: c, number: number}, nil
	case c.Type == XRCSend:
		c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE, c.RecvCQ = 0, 0, nil
	case c.SRQ != nil:
		c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE = 0, 0
		c.SRQ.users++
	}
	c.PD.AddUser()
	for _, q := range c.eachCQ {
		q.AttachQP(number)
	}
	return &QP{limits: l, config: c, number: number, attr: Attr{Cap: c.Cap}}, nil
}

// eachCQ yields the completion queues, one of them twice if it is both.
func (c *Config) eachCQ(yield func(int, *cq.CQ) bool) {
	for i, q := range [...]*cq.CQ{c.SendCQ, c.RecvCQ} {
		if q != nil && !yield(i, q) {
			return
		}
	}
}

func (c *Config) checkConfig(number uint32, l *Limits) error {
	switch {
	case !c.Type.isKnown():
		return fmt.Errorf("%w: qp_type is %d: it can be IBV_QPT_RC (2), IBV_QPT_UC (3), IBV_QPT_UD (4), IBV_QPT_XRC_SEND (9) or IBV_QPT_XRC_RECV (10)", syscall.EOPNOTSUPP, c.Type)
	case c.Type == XRCRecv:
		if c.XRCD == nil {
			return fmt.Errorf("%w: a queue pair of type XRC_RECV needs an XRC domain", syscall.EINVAL)
		}
		return checkBetween("number of the queue pair", number, MinNumber, MaxNumber)
	case c.PD == nil || c.SendCQ == nil || c.RecvCQ == nil && c.Type != XRCSend:
		return fmt.Errorf("%w: a queue pair needs a protection domain, send_cq and recv_cq", syscall.EINVAL)
	case c.Type == GSI && number != GSINumber:
		return fmt.Errorf("%w: the GSI queue pair has number 1, not %d", syscall.EINVAL, number)
	case c.SRQ != nil && c.Type != RC && c.Type != UD:
		return fmt.Errorf("%w: a queue pair of type %v cannot have a shared receive queue: only RC and UD can", syscall.EINVAL, c.Type)
	}
	if c.Type != GSI {
		if err := checkBetween("number of the queue pair", number, MinNumber, MaxNumber); err != nil {
			return err
		}
	}
	err := firstError(
		checkBetween("max_send_wr", c.Cap.MaxSendWR, 0, l.QPWR),
		checkBetween("max_send_sge", c.Cap.MaxSendSGE, 0, l.SGE),
		checkBetween("max_inline_data", c.Cap.MaxInline, 0, l.Inline),
	)
	if err != nil || c.SRQ != nil || c.Type == XRCSend {
		return err
	}
	return firstError(
		checkBetween("max_recv_wr", c.Cap.MaxRecvWR, 0, l.QPWR),
		checkBetween("max_recv_sge", c.Cap.MaxRecvSGE, 0, l.SGE),
	)
}

// PD returns the queue pair's protection domain; nil for XRCRecv.
func (q *QP) PD() *memory.PD { return q.config.PD }

// Number is the queue pair's number.
func (q *QP) Number() uint32 { return q.number }

// State returns its state.
func (q *QP) State() State { return q.attr.State }

// RemoteAccess returns the access rights of the peer.
func (q *QP) RemoteAccess() memory.Access { return memory.Access(q.attr.Access &^ ignored) }

// Query returns all attributes and the configuration (ibv_query_qp(3)).
func (q *QP) Query() (Attr, Config) {
	a := q.attr
	a.CurState = a.State
	return a, q.config
}

// Modify changes attributes, and the state if the mask has MaskState (ibv_modify_qp(3)). An error
// changes nothing. RESET clears the attributes and removes the completions from the queues. While
// the send queue drains (SQD), its attributes stay as they are.
func (q *QP) Modify(a Attr, m Mask) error {
	from, to := q.attr.State, q.attr.State
	if m&MaskState != 0 {
		to = a.State
	}
	if err := q.checkTransition(from, to, &a, m); err != nil {
		return err
	}
	if err := a.checkAttributes(q.config.Type, m, q.limits); err != nil {
		return err
	}
	q.attr.copyFrom(&a, m)
	switch {
	case to == Reset:
		q.attr = Attr{Cap: q.config.Cap}
		q.discardCompletions()
	case to == SQD && from != SQD:
		q.attr.SQDraining = true
		q.attr.EnSQDAsyncNotify = m&MaskEnSQDAsyncNotify != 0 && a.EnSQDAsyncNotify
	case to != SQD:
		q.attr.SQDraining = false
	}
	q.attr.State = to
	return nil
}

// checkTransition checks a change against the state table.
func (q *QP) checkTransition(from, to State, a *Attr, m Mask) error {
	required, optional, ok := TransitionOf(q.config.Type, from, to)
	missing, extra := required&^m, m&^(required|optional|MaskState)
	switch {
	case q.ended:
		return fmt.Errorf("%w: queue pair %d is destroyed", syscall.EINVAL, q.number)
	case !ok:
		return fmt.Errorf("%w: queue pair %d of type %v cannot go from %v to %v: the order is RESET, INIT, RTR, RTS; RTS and SQD to each other; SQE to RTS; any but RESET to ERR; any to RESET",
			syscall.EINVAL, q.number, q.config.Type, from, to)
	case missing != 0:
		return fmt.Errorf("%w: queue pair %d of type %v from %v to %v: attr_mask lacks %v", syscall.EINVAL, q.number, q.config.Type, from, to, missing)
	case extra != 0:
		return fmt.Errorf("%w: queue pair %d of type %v from %v to %v: attr_mask cannot have %v", syscall.EINVAL, q.number, q.config.Type, from, to, extra)
	case m&MaskCurState != 0 && a.CurState != from:
		return fmt.Errorf("%w: cur_qp_state is %v, but queue pair %d is in %v", syscall.EINVAL, a.CurState, q.number, from)
	case from == SQD && to == SQD && m&^MaskState != 0 && q.attr.SQDraining:
		return fmt.Errorf("%w: the send queue of queue pair %d is still draining: wait for IBV_EVENT_SQ_DRAINED before changing %v", syscall.EINVAL, q.number, m&^MaskState)
	}
	return nil
}

// OnDrained is called when no send request is under way any more. It reports whether to raise
// SQDrained.
func (q *QP) OnDrained() bool {
	if q.attr.State != SQD || !q.attr.SQDraining {
		return false
	}
	q.attr.SQDraining = false
	return q.attr.EnSQDAsyncNotify
}

// SendFailed is called when a send request has ended with an error: RC and XRC go to
// ERR, others that were in RTS to SQE, where a program can take them back to RTS
// (§10.3.1.6).
func (q *QP) SendFailed() {
	if q.config.Type.IsReliable() {
		q.MoveToError()
	} else if q.attr.State == RTS || q.attr.State == SQD {
		q.attr.State, q.attr.SQDraining = SQE, false
	}
}

// MoveToError takes the queue pair to ERR: a receive or the whole of it has failed,
// or its completion queue has overrun.
func (q *QP) MoveToError() {
	if q.attr.State != Reset {
		q.attr.State, q.attr.SQDraining = Err, false
	}
}

// MayReach reports whether the queue pair may send datagrams with an address handle: it sends
// datagrams, and both belong to one protection domain.
func (q *QP) MayReach(h *AH) bool { return !q.config.Type.isConnected() && h.pd == q.config.PD }

// Destroy destroys the queue pair (ibv_destroy_qp(3)); its completions leave their queues. EBUSY:
// it is attached to multicast groups. Windows that it has bound are left to memory.Table.UnbindQP.
func (q *QP) Destroy() error {
	switch {
	case q.ended:
		return fmt.Errorf("%w: queue pair %d is destroyed already", syscall.EINVAL, q.number)
	case q.groups > 0:
		return fmt.Errorf("%w: queue pair %d is attached to %d multicast groups: detach it first", syscall.EBUSY, q.number, q.groups)
	}
	q.ended = true
	q.attr.State = Reset
	q.discardCompletions()
	for _, c := range q.config.eachCQ {
		c.DetachQP(q.number)
	}
	if q.config.SRQ != nil {
		q.config.SRQ.users--
	}
	if q.config.XRCD != nil {
		q.config.XRCD.users--
	}
	if q.config.PD != nil {
		q.config.PD.ReleaseHold()
	}
	return nil
}

// discardCompletions removes the queue pair's entries from its queues. Those of the messages to an
// XRC target stay: they are in the queues of shared receive queues.
func (q *QP) discardCompletions() {
	for _, c := range q.config.eachCQ {
		c.DiscardQP(q.number)
	}
}
