package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// CQ is a completion queue (ibv_create_cq(3)). Programs poll it (Poll), wait for entries as a
// process (Wait), or get events from a Channel (Arm).
type CQ struct {
	agenda.Task[sleeper]
	queue     *cq.CQ
	device    *Device
	channel   *Channel // nil if none
	came      sim.Cond // signalled when an entry arrives
	notify    func()   // called when an entry arrives; may be nil
	destroyed bool
}

// CreateCQ makes a completion queue for depth entries, 1 to max_cqe. channel gets its events; it
// may be nil. ENOMEM: there are max_cq; EINVAL: depth is out of range.
func (d *Device) CreateCQ(depth int, channel *Channel) (*CQ, error) {
	c := &CQ{device: d, channel: channel}
	return c.countQueue(cq.New(depth, d.settings.Limits.CQE, channel.innerChannel(), (*cqEvents)(c)))
}

// Latency returns the latency of the device's completion queues.
func (d *Device) Latency() cq.Latency { return d.settings.Delays.cqLatency() }

// CreateSinkCQ makes a completion queue whose entries and events go to a sink instead of being
// polled and going to a channel.
func (d *Device) CreateSinkCQ(depth int, s cq.Sink) (*CQ, error) {
	c := &CQ{device: d}
	return c.countQueue(cq.NewSink(depth, d.settings.Limits.CQE, s, (*cqEvents)(c)))
}

// countQueue counts a new queue.
func (c *CQ) countQueue(inner *cq.CQ, err error) (*CQ, error) {
	d := c.device
	if full := d.settings.Limits.CheckRoom(qp.CompletionQueues, d.inUse[qp.CompletionQueues]); full != nil && err == nil {
		_ = inner.Destroy() // nothing has used it
		err = full
	}
	if err != nil {
		return nil, err
	}
	inner.SetLatency(d.Latency())
	c.queue = inner
	c.channel.addQueue(c)
	d.inUse[qp.CompletionQueues]++
	d.agenda.EnrolTask(&c.Task, c)
	return c, nil
}

// Destroy destroys the queue (ibv_destroy_cq). Its events leave the channel, and processes that
// wait for entries return. EBUSY: queue pairs complete here, or events were taken and not
// acknowledged; EINVAL: it is destroyed already.
func (c *CQ) Destroy() error {
	if c.destroyed {
		return errDestroyed
	}
	if err := c.queue.Destroy(); err != nil {
		return err
	}
	d := c.device
	c.destroyed = true
	c.channel.removeQueue(c)
	c.came.Broadcast()
	d.agenda.Remove(&c.Task)
	d.inUse[qp.CompletionQueues]--
	d.dropEvents(func(e AsyncEvent) bool { return e.CQ == c })
	d.armTimer()
	return nil
}

var errDestroyed = fmt.Errorf("%w: the completion queue is destroyed", syscall.EINVAL)

// checkUsable returns the reason why a queue pair of a device cannot complete here, if there is one.
func (c *CQ) checkUsable(d *Device) error {
	switch {
	case c == nil:
		return fmt.Errorf("%w: a queue pair needs a SendCQ and a RecvCQ", syscall.EINVAL)
	case c.destroyed:
		return errDestroyed
	case c.device != d:
		return fmt.Errorf("%w: the completion queue is of device %s, not of %s", syscall.EINVAL, c.device.Name(), d.Name())
	}
	return nil
}

// Device returns the device that the queue belongs to.
func (c *CQ) Device() *Device { return c.device }

// Poll takes up to len(dst) entries, oldest first, and returns how many (ibv_poll_cq(3)). After an
// overrun it returns the entries that came before, then cq.ErrOverrun, which is an EIO. EINVAL: it
// is destroyed.
func (c *CQ) Poll(dst []Completion) (int, error) {
	if c.destroyed {
		return 0, errDestroyed
	}
	return c.queue.Poll(dst)
}

// Len returns the number of entries waiting to be polled.
func (c *CQ) Len() int { return c.queue.Len() }

// SetLatency gives a queue without entries its own latency instead of that of the NIC's Delays.
func (c *CQ) SetLatency(l cq.Latency) { c.queue.SetLatency(l) }

// Depth returns the capacity in entries.
func (c *CQ) Depth() int { return c.queue.Depth() }

// Overrun reports whether an entry was lost because the queue was full. Its queue pairs are then in
// ERR, and the queue can only be destroyed.
func (c *CQ) Overrun() bool { return !c.destroyed && c.queue.Overrun() }

// Resize changes the capacity, to between the number of waiting entries and max_cqe
// (ibv_resize_cq(3)). EINVAL: depth is out of that range, or the queue is destroyed.
func (c *CQ) Resize(depth int) error {
	if c.destroyed {
		return errDestroyed
	}
	return c.queue.Resize(depth, c.device.settings.Limits.CQE)
}

// Moderate holds events back to reduce their number (ibv_modify_cq(3)): until m.Count entries have
// arrived, or m.Period has passed since the first of them. An event that is already held back comes
// at the end of the old period, or with the new count. EINVAL: a count without a period, or a
// period beyond 65535 us.
func (c *CQ) Moderate(m Moderation) error { return c.queue.Moderate(m) }

// Arm requests one event for the next entry, or with solicitedOnly for the next solicited entry or
// error (ibv_req_notify_cq(3)). The channel gets it. Entries that are already there cause none:
// poll again after arming. Without a channel it does nothing.
func (c *CQ) Arm(solicitedOnly bool) {
	c.queue.Arm(solicitedOnly)
	c.device.agenda.WakeAt(&c.Task, c.queue.NextExpiry())
	c.device.armTimer()
}

// RecheckEntries is called when the process behind a sink has asked for an event while there are entries
// that caused none. If it does not poll them soon, the event comes.
func (c *CQ) RecheckEntries() {
	if c.destroyed {
		return
	}
	c.queue.RecheckEntries(c.device.Now())
	c.device.agenda.WakeAt(&c.Task, c.queue.NextExpiry())
	c.device.armTimer()
}

// Ack acknowledges n events of this queue that were taken from the channel (ibv_ack_cq_events).
// EINVAL: fewer were taken.
func (c *CQ) Ack(n int) error { return c.queue.Ack(n) }

// completer is a CQ as seen by the engines of queue pairs.
type completer CQ

// CompleteRequest implements transport.CQ.
func (x *completer) CompleteRequest(e cq.Completion, solicited bool) {
	c := (*CQ)(x)
	c.queue.Push(c.device.Now(), e, solicited)
	c.came.Broadcast()
	if c.notify != nil {
		c.notify()
	}
	c.device.agenda.WakeAt(&c.Task, c.queue.NextExpiry())
}

// Push adds an entry, as the engines of queue pairs do.
func (c *CQ) Push(e Completion, solicited bool) {
	(*completer)(c).CompleteRequest(e, solicited)
	c.device.armTimer()
}

// addSoftwareEntry adds an entry made by software, without latency.
func (c *CQ) addSoftwareEntry(e Completion, solicited bool) {
	d := c.device
	c.queue.DeliverEntry(d.Now(), e, solicited)
	c.came.Broadcast()
	d.agenda.WakeAt(&c.Task, c.queue.NextExpiry())
	d.armTimer()
}

// NotifyEach sets f to be called for each new entry. It is called while the NIC is at work: it must not
// use the NIC, but may arm a Task.
func (c *CQ) NotifyEach(f func()) { c.notify = f }

// doDueWork releases an event held back by moderation, and delivers delayed entries.
func (c *CQ) doDueWork(now units.Time) {
	if c.queue.NextExpiry() <= now {
		c.queue.ReleaseDue(now)
		c.came.Broadcast()
		if c.notify != nil {
			c.notify()
		}
	}
	c.device.agenda.WakeAt(&c.Task, c.queue.NextExpiry())
}

// cqEvents is a CQ as seen by package cq.
type cqEvents CQ

// CQError implements cq.Events.
func (x *cqEvents) CQError(*cq.CQ) {
	c := (*CQ)(x)
	c.device.raiseEvent(AsyncEvent{Kind: qp.CQErr, CQ: c})
}

// QPFatal implements cq.Events.
func (x *cqEvents) QPFatal(number uint32) {
	d := x.device
	if q := d.numbers.findQP(number); q != nil {
		d.raiseEvent(AsyncEvent{Kind: qp.QPFatal, QP: q})
		d.failQP(q)
	}
}
