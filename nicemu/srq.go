package nicemu

import "github.com/weftlab/weft/nicemu/qp"

// SRQ is a shared receive queue (ibv_create_srq(3)). Post, Modify, Query and Len
// are those of package qp.
type SRQ struct {
	*qp.SRQ
	device *Device
}

// CreateSRQ makes a shared receive queue. ENOMEM: there are max_srq; EINVAL: it is
// larger than the device can.
func (p *PD) CreateSRQ(a qp.SRQAttr) (*SRQ, error) {
	d := p.device
	if err := d.settings.Limits.Room(qp.SharedReceiveQueues, d.inUse[qp.SharedReceiveQueues]); err != nil {
		return nil, err
	}
	s := &SRQ{device: d}
	inner, err := qp.NewSRQ(p.memory, a, &d.settings.Limits, s)
	if err != nil {
		return nil, err
	}
	s.SRQ = inner
	d.inUse[qp.SharedReceiveQueues]++
	return s, nil
}

// Destroy ends the queue (ibv_destroy_srq). EBUSY: queue pairs take from it.
func (s *SRQ) Destroy() error {
	if err := s.SRQ.Destroy(); err != nil {
		return err
	}
	s.device.inUse[qp.SharedReceiveQueues]--
	s.device.forget(func(e AsyncEvent) bool { return e.SRQ == s })
	return nil
}
