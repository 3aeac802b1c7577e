package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Channel is a completion channel (ibv_create_comp_channel(3)): the events, in order, of the queues
// that were made with it. The zero value is ready for use. Its queues may belong to several devices
// of one engine.
//
// A queue makes an event when it is armed and an entry arrives. Then it must be armed again, and
// the event must be acknowledged before the queue can be destroyed:
//
//	c.Arm(false)
//	for {
//		c, err := channel.Wait(p, units.Never)
//		...
//		c.Ack(1)
//		c.Arm(false)
//		for n, _ := c.Poll(entries); n > 0; n, _ = c.Poll(entries) {
//			...
//		}
//	}
type Channel struct {
	// Notify, if set, is called when an event arrives and none was waiting, like a descriptor
	// becoming readable. It is called while the NIC is at work: it must not use the NIC, but may
	// arm a timer or wake a process.
	Notify func()

	events cq.Channel
	queues map[*cq.CQ]*CQ
	came   sim.Cond // signalled when an event arrives
}

// innerChannel returns the channel in package cq.
func (c *Channel) innerChannel() *cq.Channel {
	if c == nil {
		return nil
	}
	if c.queues == nil {
		c.queues = map[*cq.CQ]*CQ{}
		c.events.Notify = func() {
			c.came.Broadcast()
			if c.Notify != nil {
				c.Notify()
			}
		}
	}
	return &c.events
}

func (c *Channel) addQueue(q *CQ) {
	if c != nil {
		c.queues[q.queue] = q
	}
}

func (c *Channel) removeQueue(q *CQ) {
	if c != nil {
		delete(c.queues, q.queue)
	}
}

// Len returns the number of waiting events.
func (c *Channel) Len() int { return c.events.Len() }

// Get takes the oldest event and returns its queue (ibv_get_cq_event(3)); false if there is none.
func (c *Channel) Get() (*CQ, bool) {
	q, ok := c.events.Get()
	return c.queues[q], ok
}

// Wait takes the oldest event, waiting up to timeout for one; units.Never means no limit.
// ETIMEDOUT: none arrived.
func (c *Channel) Wait(p *sim.Process, timeout units.Time) (*CQ, error) {
	c.innerChannel()
	end := deadlineAfter(p, timeout)
	for {
		if q, ok := c.Get(); ok {
			return q, nil
		}
		if !c.came.Wait(p, end-p.Now()) {
			return nil, fmt.Errorf("%w: no completion event within %v", syscall.ETIMEDOUT, timeout)
		}
	}
}

// Destroy destroys the channel (ibv_destroy_comp_channel). EBUSY: queues use it.
func (c *Channel) Destroy() error { return c.events.Destroy() }
