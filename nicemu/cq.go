package nicemu

import (
	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
)

// CQ is a completion queue (ibv_create_cq(3)). Poll, Arm, Ack and Resize are
// those of package cq.
type CQ struct {
	*cq.CQ
	task
	device *Device
	came   sim.Cond // an entry has
}

// CreateCQ makes a completion queue for depth entries. channel is told of events;
// nil for none. ENOMEM: there are max_cq; EINVAL: depth is beyond max_cqe.
func (d *Device) CreateCQ(depth int, channel *cq.Channel) (*CQ, error) {
	if err := d.settings.Limits.Room(qp.CompletionQueues, d.inUse[qp.CompletionQueues]); err != nil {
		return nil, err
	}
	c := &CQ{device: d}
	inner, err := cq.New(depth, d.settings.Limits.CQE, channel, c)
	if err != nil {
		return nil, err
	}
	c.CQ = inner
	d.inUse[qp.CompletionQueues]++
	d.agenda.enrol(&c.task, c)
	return c, nil
}

// Destroy ends the queue (ibv_destroy_cq). EBUSY: queue pairs complete here, or
// events were taken and not acknowledged.
func (c *CQ) Destroy() error {
	if err := c.CQ.Destroy(); err != nil {
		return err
	}
	d := c.device
	d.agenda.remove(&c.task)
	d.inUse[qp.CompletionQueues]--
	d.forget(func(e AsyncEvent) bool { return e.CQ == c })
	d.arm()
	return nil
}

// Arm asks for an event by the next entry (ibv_req_notify_cq(3); cq.CQ.Arm).
func (c *CQ) Arm(solicitedOnly bool) {
	c.CQ.Arm(solicitedOnly)
	c.device.agenda.at(&c.task, c.Deadline())
	c.device.arm()
}

// Complete implements transport.CQ.
func (c *CQ) Complete(e cq.Completion, solicited bool) {
	c.Push(c.device.Now(), e, solicited)
	c.came.Broadcast()
	c.device.agenda.at(&c.task, c.Deadline())
}

// wake lets an event go that moderation has held back.
func (c *CQ) wake(now units.Time) {
	if c.Deadline() <= now {
		c.Expire(now)
	}
	c.device.agenda.at(&c.task, c.Deadline())
}
