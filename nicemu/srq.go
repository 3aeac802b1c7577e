package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
)

// SRQ is a shared receive queue (ibv_create_srq(3)).
type SRQ struct {
	queue     *qp.SRQ
	device    *Device
	destroyed bool

	// Of an XRC domain.
	cq   *CQ
	ends map[uint32]*transport.Destination // by number of the XRCRecv queue pair
}

// CreateSRQ makes an empty shared receive queue; a.Limit is ignored. ENOMEM: there are max_srq;
// EINVAL: it exceeds the device's limits.
func (p *PD) CreateSRQ(a SRQAttr) (*SRQ, error) {
	return p.newSRQ(func(s *SRQ) (*qp.SRQ, error) {
		return qp.NewSRQ(p.memory, a, &p.device.settings.Limits, (*srqEvents)(s))
	})
}

// newSRQ makes a shared receive queue whose inner one a function makes.
func (p *PD) newSRQ(inner func(*SRQ) (*qp.SRQ, error)) (*SRQ, error) {
	d := p.device
	if err := p.checkUsable(); err != nil {
		return nil, err
	}
	if err := d.settings.Limits.CheckRoom(qp.SharedReceiveQueues, d.inUse[qp.SharedReceiveQueues]); err != nil {
		return nil, err
	}
	s := &SRQ{device: d}
	var err error
	if s.queue, err = inner(s); err != nil {
		return nil, err
	}
	d.inUse[qp.SharedReceiveQueues]++
	return s, nil
}

// Destroy destroys the queue with its requests (ibv_destroy_srq). EBUSY: queue pairs use it;
// EINVAL: it is destroyed already.
func (s *SRQ) Destroy() error {
	if err := s.queue.Destroy(); err != nil {
		return err
	}
	s.destroyed = true
	s.device.xrcSRQs.removeSRQ(s)
	s.device.inUse[qp.SharedReceiveQueues]--
	s.device.dropEvents(func(e AsyncEvent) bool { return e.SRQ == s })
	return nil
}

var errSRQDestroyed = fmt.Errorf("%w: the shared receive queue is destroyed", syscall.EINVAL)

// checkUsable returns the reason why a queue pair of a device cannot use it, if there is one.
func (s *SRQ) checkUsable(d *Device) error {
	switch {
	case s == nil:
		return nil
	case s.destroyed:
		return errSRQDestroyed
	case s.Number() != 0:
		return fmt.Errorf("%w: shared receive queue %d is of an XRC domain: it needs no queue pair", syscall.EINVAL, s.Number())
	case s.device != d:
		return fmt.Errorf("%w: the shared receive queue is of device %s, not of %s", syscall.EINVAL, s.device.Name(), d.Name())
	}
	return nil
}

// Number returns the number that work requests name (SendWR.SRQ), of a queue of an XRC domain; 0 for
// others.
func (s *SRQ) Number() uint32 { return s.queue.Number() }

// Device returns the device that the queue belongs to.
func (s *SRQ) Device() *Device { return s.device }

// PostRecv adds a request, for the next queue pair that receives (ibv_post_srq_recv(3)). It is
// copied. ENOMEM: the queue is full; EINVAL: the list has too many elements.
func (s *SRQ) PostRecv(wr *RecvWR) error {
	if s.destroyed {
		return errSRQDestroyed
	}
	return s.queue.PostReceive(wr.ID, wr.SGL)
}

// PostRecvList adds requests in order, up to the first one refused, and returns how many were
// added: with an error list[posted] is bad_wr.
func (s *SRQ) PostRecvList(list []RecvWR) (posted int, err error) { return postEach(list, s.PostRecv) }

// Modify changes the size, where Limits.SRQResize allows it, or arms the limit:
// an AsyncEvent of kind EventSRQLimitReached comes, once, as soon as fewer requests
// than a.Limit are left (ibv_modify_srq(3)); 0 disarms it. An error, EINVAL or
// EOPNOTSUPP, changes nothing.
func (s *SRQ) Modify(a SRQAttr, m qp.SRQMask) error {
	if s.destroyed {
		return errSRQDestroyed
	}
	return s.queue.Modify(a, m)
}

// Query returns the attributes (ibv_query_srq(3)); Limit is 0 if it is not armed.
func (s *SRQ) Query() SRQAttr { return s.queue.Query() }

// Len returns the number of requests.
func (s *SRQ) Len() int { return s.queue.Len() }

// srqEvents is an SRQ as seen by package qp.
type srqEvents SRQ

// LimitReached implements qp.SRQEvents.
func (x *srqEvents) LimitReached(*qp.SRQ) {
	x.device.raiseEvent(AsyncEvent{Kind: qp.SRQLimitReached, SRQ: (*SRQ)(x)})
}
