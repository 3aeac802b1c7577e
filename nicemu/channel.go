package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Channel is a completion channel (ibv_create_comp_channel(3)): the events of the
// queues that were made with it, in order. The zero value is ready for use. Its
// queues may be of several devices of one engine.
//
// A queue makes an event when it was armed and an entry has come. Then it has to
// be armed again, and the event to be acknowledged before the queue can be
// destroyed:
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
	// Notify, if set, is called when an event comes and none was there, as a
	// descriptor becomes readable. It is called while the NIC is at work: it must
	// not use the NIC, but may arm a timer or wake a process.
	Notify func()

	events cq.Channel
	queues map[*cq.CQ]*CQ
	came   sim.Cond // an event has
}

// inner is the channel as package cq knows it.
func (c *Channel) inner() *cq.Channel {
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

func (c *Channel) add(q *CQ) {
	if c != nil {
		c.queues[q.queue] = q
	}
}

func (c *Channel) remove(q *CQ) {
	if c != nil {
		delete(c.queues, q.queue)
	}
}

// Len is how many events wait.
func (c *Channel) Len() int { return c.events.Len() }

// Get takes the oldest event and gives the queue that it is of
// (ibv_get_cq_event(3)); false if there is none.
func (c *Channel) Get() (*CQ, bool) {
	q, ok := c.events.Get()
	return c.queues[q], ok
}

// Wait takes the oldest event, waiting for up to timeout until there is one;
// units.Never is for ever. ETIMEDOUT: none came.
func (c *Channel) Wait(p *sim.Process, timeout units.Time) (*CQ, error) {
	c.inner()
	end := after(p, timeout)
	for {
		if q, ok := c.Get(); ok {
			return q, nil
		}
		if !c.came.Wait(p, end-p.Now()) {
			return nil, fmt.Errorf("%w: no completion event within %v", syscall.ETIMEDOUT, timeout)
		}
	}
}

// Destroy ends the channel (ibv_destroy_comp_channel). EBUSY: queues use it.
func (c *Channel) Destroy() error { return c.events.Destroy() }
