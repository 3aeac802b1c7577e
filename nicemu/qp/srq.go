package qp

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
)

// SRQAttr are the attributes of a shared receive queue (ibv_srq_attr).
type SRQAttr struct {
	MaxWR  int // work requests
	MaxSGE int // elements of a list
	Limit  int // srq_limit; 0 if it is not armed
}

// SRQMask says which attributes Modify changes. The values are those of ibv_srq_attr_mask.
type SRQMask uint8

// The attributes.
const (
	SRQMaxWR SRQMask = 1 << 0
	SRQLimit SRQMask = 1 << 1
)

// SRQEvents takes the events of a shared receive queue.
type SRQEvents interface {
	// LimitReached is IBV_EVENT_SRQ_LIMIT_REACHED.
	LimitReached(s *SRQ)
}

// RecvWR is a receive request.
type RecvWR struct {
	ID  uint64
	SGL []memory.SGE
}

// SRQ is a shared receive queue (§10.2.9). Make it with NewSRQ.
type SRQ struct {
	limits *Limits
	events SRQEvents
	pd     *memory.PD // nil once destroyed
	attr   SRQAttr
	users  int     // queue pairs
	xrc    *xrcSRQ // nil for other shared receive queues

	// One ring in two slices, so that elements need no slice of each slot.
	slots       []srqSlot // grow up to MaxWR, which need not be a power of two
	elements    []memory.SGE
	head, count int
}

// srqSlot is a request; its elements are the first of MaxSGE in elements.
type srqSlot struct {
	id uint64
	n  int
}

// NewSRQ makes an empty queue (ibv_create_srq(3)) of exactly the requested size; a.Limit is
// ignored. events may be nil. Requests take memory only when they are first needed.
func NewSRQ(pd *memory.PD, a SRQAttr, l *Limits, events SRQEvents) (*SRQ, error) {
	if pd == nil {
		return nil, fmt.Errorf("%w: a shared receive queue needs a protection domain", syscall.EINVAL)
	}
	if err := firstError(checkBetween("max_wr", a.MaxWR, 1, l.SRQWR), checkBetween("max_sge", a.MaxSGE, 0, l.SRQSGE)); err != nil {
		return nil, err
	}
	pd.AddUser()
	a.Limit = 0
	return &SRQ{limits: l, events: events, pd: pd, attr: a}, nil
}

// xrcSRQ is what a shared receive queue of an XRC domain has in addition.
type xrcSRQ struct {
	number uint32
	xrcd   *XRCD
	cq     *cq.CQ
}

// NewXRCSRQ makes an empty queue of an XRC domain (ibv_create_srq_ex with IBV_SRQT_XRC), whose
// requests complete in c. The number, from 1, is what the requests of initiators name.
func NewXRCSRQ(number uint32, pd *memory.PD, x *XRCD, c *cq.CQ, a SRQAttr, l *Limits, events SRQEvents) (*SRQ, error) {
	if x == nil || c == nil {
		return nil, fmt.Errorf("%w: a shared receive queue of type IBV_SRQT_XRC needs an XRC domain and a completion queue", syscall.EINVAL)
	}
	if err := checkBetween("number of the shared receive queue", number, 1, MaxSRQNumber); err != nil {
		return nil, err
	}
	s, err := NewSRQ(pd, a, l, events)
	if err != nil {
		return nil, err
	}
	s.xrc = &xrcSRQ{number, x, c}
	x.users++
	c.AttachSRQ(number)
	return s, nil
}

// Number returns the number of a queue of an XRC domain; 0 for others.
func (s *SRQ) Number() uint32 {
	if s.xrc == nil {
		return 0
	}
	return s.xrc.number
}

// XRCD returns the queue's XRC domain; nil if it has none, or is destroyed.
func (s *SRQ) XRCD() *XRCD {
	if s.xrc == nil {
		return nil
	}
	return s.xrc.xrcd
}

// PD returns the protection domain, in which the memory of its requests is; nil once destroyed.
func (s *SRQ) PD() *memory.PD { return s.pd }

// Query returns the attributes (ibv_query_srq(3)).
func (s *SRQ) Query() SRQAttr { return s.attr }

// Len returns the number of requests.
func (s *SRQ) Len() int { return s.count }

// Modify changes the size, if the device can, or arms the limit
// (ibv_modify_srq(3)); a limit of 0 disarms it. An error changes nothing.
func (s *SRQ) Modify(a SRQAttr, m SRQMask) error {
	size := s.attr.MaxWR
	if m&^(SRQMaxWR|SRQLimit) != 0 {
		return fmt.Errorf("%w: srq_attr_mask is %#x: it can have IBV_SRQ_MAX_WR (1) and IBV_SRQ_LIMIT (2)", syscall.EINVAL, uint8(m))
	}
	if m&SRQMaxWR != 0 {
		if !s.limits.SRQResize {
			return fmt.Errorf("%w: the device cannot resize a shared receive queue: leave IBV_SRQ_MAX_WR out", syscall.EOPNOTSUPP)
		}
		size = a.MaxWR
		if err := checkBetween("max_wr", size, max(1, s.count), s.limits.SRQWR); err != nil {
			return err
		}
	}
	limit := s.attr.Limit
	if m&SRQLimit != 0 {
		limit = a.Limit
	}
	if err := checkBetween("srq_limit", limit, 0, size); err != nil {
		return err
	}
	s.attr.MaxWR, s.attr.Limit = size, limit
	return nil
}

// PostReceive adds a request at the end (ibv_post_srq_recv). It copies the list.
func (s *SRQ) PostReceive(id uint64, list []memory.SGE) error {
	if err := memory.CheckCount(list, s.attr.MaxSGE); err != nil {
		return err
	}
	if s.count == s.attr.MaxWR {
		return fmt.Errorf("%w: the shared receive queue holds %d requests (max_wr): wait for completions", syscall.ENOMEM, s.count)
	}
	if s.count == len(s.slots) {
		s.growRing(min(s.attr.MaxWR, max(4, 2*len(s.slots))))
	}
	i := (s.head + s.count) % len(s.slots)
	s.slots[i] = srqSlot{id, len(list)}
	copy(s.elementsOf(i), list)
	s.count++
	return nil
}

// TakeRequest moves the oldest request to wr and copies the list into its SGL; false if there is none. If
// fewer requests than the limit remain, LimitReached is called and the limit disarmed.
func (s *SRQ) TakeRequest(wr *RecvWR) bool {
	if s.count == 0 {
		return false
	}
	slot := s.slots[s.head]
	wr.ID, wr.SGL = slot.id, append(wr.SGL[:0], s.elementsOf(s.head)[:slot.n]...)
	s.head = (s.head + 1) % len(s.slots)
	s.count--
	if s.count < s.attr.Limit {
		s.attr.Limit = 0
		if s.events != nil {
			s.events.LimitReached(s)
		}
	}
	return true
}

// elementsOf returns the elements of a slot.
func (s *SRQ) elementsOf(i int) []memory.SGE {
	return s.elements[i*s.attr.MaxSGE:][:s.attr.MaxSGE]
}

func (s *SRQ) growRing(n int) {
	slots, elements := make([]srqSlot, n), make([]memory.SGE, n*s.attr.MaxSGE)
	for k := range s.count {
		i := (s.head + k) % len(s.slots)
		slots[k] = s.slots[i]
		copy(elements[k*s.attr.MaxSGE:], s.elementsOf(i))
	}
	s.slots, s.elements, s.head = slots, elements, 0
}

// Destroy destroys the queue (ibv_destroy_srq); EBUSY if queue pairs use it.
func (s *SRQ) Destroy() error {
	switch {
	case s.pd == nil:
		return fmt.Errorf("%w: the shared receive queue is destroyed already", syscall.EINVAL)
	case s.users > 0:
		return fmt.Errorf("%w: %d queue pairs use the shared receive queue: destroy them first", syscall.EBUSY, s.users)
	}
	s.pd.ReleaseHold()
	if x := s.xrc; x != nil {
		x.xrcd.users--
		x.xrcd = nil
		x.cq.DiscardSRQ(x.number)
		x.cq.DetachSRQ(x.number)
	}
	s.pd, s.slots, s.elements, s.count = nil, nil, nil, 0
	return nil
}
