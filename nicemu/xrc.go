package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/wire/roce"
)

// XRCD is an XRC domain (ibv_open_xrcd(3), annex A14 of the specification). A queue pair of type
// XRCRecv takes the messages of one peer for all shared receive queues of its domain: the sender
// names one in each work request (SendWR.SRQ).
type XRCD struct {
	device *Device
	domain qp.XRCD
}

// SupportsXRC reports whether the device has extended reliable connections: IRN has no opcodes for
// them, and layers are above RC and UC only.
func (d *Device) SupportsXRC() bool {
	return d.layer == nil && recoveryService(d.settings.Recovery) == roce.RC
}

// OpenXRCD makes an XRC domain. EOPNOTSUPP: the device has no XRC.
func (d *Device) OpenXRCD() (*XRCD, error) {
	if err := d.checkXRC(); err != nil {
		return nil, err
	}
	return &XRCD{device: d}, nil
}

func (d *Device) checkXRC() error {
	if d.SupportsXRC() {
		return nil
	}
	why := fmt.Sprintf("%v has no opcodes for it", recoveryService(d.settings.Recovery))
	if d.layer != nil {
		why = "the layer above it is for RC and UC"
	}
	return fmt.Errorf("%w: %s has no XRC, since %s", syscall.EOPNOTSUPP, d.Name(), why)
}

// Device returns the device that the domain belongs to.
func (x *XRCD) Device() *Device { return x.device }

// Close closes the domain (ibv_close_xrcd). EBUSY: it has queue pairs or shared receive queues;
// EINVAL: it is closed already.
func (x *XRCD) Close() error { return x.domain.Close() }

// CreateQP makes a queue pair of type XRCRecv in state RESET. It has neither queues nor a protection
// domain. ENOMEM: there are max_qp; EINVAL: the domain is closed.
func (x *XRCD) CreateQP() (*QP, error) {
	d := x.device
	if err := x.checkUsable(d); err != nil {
		return nil, err
	}
	if err := d.settings.Limits.CheckRoom(qp.QueuePairs, d.inUse[qp.QueuePairs]); err != nil {
		return nil, err
	}
	return d.newQP(QPConfig{Type: qp.XRCRecv, xrcd: x}, nil, nil, nil)
}

// CreateXRCSRQ makes an empty shared receive queue of an XRC domain (ibv_create_srq_ex with
// IBV_SRQT_XRC), whose requests complete in c; a.Limit is ignored. Its protection domain is also that
// of the memory that messages, READs and atomics for it may use. ENOMEM: there are max_srq;
// EINVAL: it exceeds the device's limits, or x or c is of another device.
func (p *PD) CreateXRCSRQ(a SRQAttr, x *XRCD, c *CQ) (*SRQ, error) {
	d := p.device
	if err := x.checkUsable(d); err != nil {
		return nil, err
	}
	if err := c.checkUsable(d); err != nil {
		return nil, err
	}
	s, err := p.newSRQ(func(s *SRQ) (*qp.SRQ, error) {
		number, err := d.xrcSRQs.nextNumber()
		if err != nil {
			return nil, err
		}
		return qp.NewXRCSRQ(number, p.memory, &x.domain, c.queue, a, &d.settings.Limits, (*srqEvents)(s))
	})
	if err != nil {
		return nil, err
	}
	s.cq, s.ends = c, map[uint32]*transport.Destination{}
	d.xrcSRQs.addSRQ(s)
	return s, nil
}

// checkUsable returns the reason why objects of a device cannot be in the domain, if there is one.
func (x *XRCD) checkUsable(d *Device) error {
	switch {
	case x == nil:
		return fmt.Errorf("%w: XRC needs an XRC domain", syscall.EINVAL)
	case x.device != d:
		return fmt.Errorf("%w: the XRC domain is of device %s, not of %s", syscall.EINVAL, x.device.Name(), d.Name())
	}
	return x.domain.CheckOpen()
}

// xrcSRQs are the shared receive queues of a device's XRC domains.
type xrcSRQs struct {
	byNumber map[uint32]*SRQ
	last     uint32 // the number assigned last
}

// nextNumber returns the number for a new queue. Numbers count up, so that late packets for an old
// queue do not reach a new one.
func (n *xrcSRQs) nextNumber() (uint32, error) {
	if len(n.byNumber) >= qp.MaxSRQNumber {
		return 0, fmt.Errorf("%w: all numbers of shared receive queues are in use: destroy some first", syscall.ENOMEM)
	}
	next := n.last
	for {
		if next++; next > qp.MaxSRQNumber {
			next = 1
		}
		if n.byNumber[next] == nil {
			return next, nil
		}
	}
}

func (n *xrcSRQs) addSRQ(s *SRQ) {
	if n.byNumber == nil {
		n.byNumber = map[uint32]*SRQ{}
	}
	n.last = s.Number()
	n.byNumber[n.last] = s
}

func (n *xrcSRQs) removeSRQ(s *SRQ) { delete(n.byNumber, s.Number()) }

// forgetTarget drops what the queues hold for a queue pair that is destroyed.
func (n *xrcSRQs) forgetTarget(q *QP) {
	for _, s := range n.byNumber {
		delete(s.ends, q.Number())
	}
}

// target is a queue pair of type XRCRecv as seen by its engine.
type target struct {
	xrcd   *XRCD
	number uint32
}

// findSRQ is a transport.Domain.
func (t target) findSRQ(number uint32) *transport.Destination {
	d := t.xrcd.device
	s := d.xrcSRQs.byNumber[number]
	if s == nil || s.queue.XRCD() != &t.xrcd.domain {
		return nil
	}
	to := s.ends[t.number]
	if to == nil {
		to = &transport.Destination{Number: number, Memory: d.memory.View(s.queue.PD(), t.number), Receives: s.queue, CQ: (*srqCompleter)(s)}
		s.ends[t.number] = to
	}
	return to
}

// srqCompleter takes the completions of the requests of a shared receive queue of an XRC domain.
type srqCompleter SRQ

// CompleteRequest implements transport.CQ. A target's message can fail after its shared receive
// queue has been destroyed, with its request.
func (x *srqCompleter) CompleteRequest(e cq.Completion, solicited bool) {
	if x.destroyed {
		return
	}
	d := x.device
	(*completer)(x.cq).CompleteRequest(e, solicited)
	if q := d.numbers.findQP(e.QP); q != nil && x.cq.Overrun() {
		// The queue does not know its targets.
		d.raiseEvent(AsyncEvent{Kind: qp.QPFatal, QP: q})
		d.failQP(q)
	}
}
