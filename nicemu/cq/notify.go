package cq

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// Arm requests one event, for the next entry or, with solicitedOnly, for the next that is solicited
// or an error (§11.4.2.2). Entries that are there already cause none: poll again after arming.
// Requesting solicited ones does not weaken an outstanding request for any.
func (q *CQ) Arm(solicitedOnly bool) {
	if !solicitedOnly {
		q.armed = forAny
	} else if q.armed == unarmed {
		q.armed = forSolicited
	}
}

// handleRequested handles an entry of the requested kind.
func (q *CQ) handleRequested(now units.Time) {
	q.held++
	m := q.moderation
	if m.Period == 0 || m.Count > 0 && q.held >= int(m.Count) {
		q.raiseEvent()
		return
	}
	if q.held == 1 {
		q.due = now + m.Period
	}
}

func (q *CQ) raiseEvent() {
	q.armed, q.held, q.due, q.missed = unarmed, 0, units.Never, units.Never
	if q.sink != nil {
		q.sink.SignalEvent()
	} else if q.channel != nil {
		q.channel.putQueue(q)
	}
}

// Moderation holds an event back until Count entries of the requested kind have arrived, or Period
// has passed since the first of them (ibv_modify_cq(3)). It saves wake-ups. The zero value means no
// moderation.
type Moderation struct {
	Count  uint16     // 0 means no limit
	Period units.Time // 0 to 65535 us
}

// MaxPeriod is the longest Period: 16 bits of microseconds.
const MaxPeriod = 65535 * units.Microsecond

// Moderate sets the moderation. An event that is already held back comes at the end of the old
// period, or when the new count is reached.
func (q *CQ) Moderate(m Moderation) error {
	switch {
	case m.Period < 0 || m.Period > MaxPeriod:
		return fmt.Errorf("%w: cq_period is %v: it can be 0 to 65535 us", syscall.EINVAL, m.Period)
	case m.Period == 0 && m.Count > 1:
		return fmt.Errorf("%w: cq_count is %d and cq_period 0, so an event might never come: set cq_period too", syscall.EINVAL, m.Count)
	}
	q.moderation = m
	return nil
}

// missedAfter is how long a process that has requested an event has to poll the entries that are
// already there.
const missedAfter = 100 * units.Microsecond

// RecheckEntries is called for a queue with a sink whose process has found, after requesting an event, that
// there are entries that caused none. If it polls now, as it should, it needs no event, and some
// programs do not tolerate an unnecessary one. Otherwise the event comes soon: with ConnectX NICs
// it would come at once, and UCX relies on that.
func (q *CQ) RecheckEntries(now units.Time) {
	if q.sink == nil {
		return
	}
	q.takeRequests()
	if q.armed != unarmed && q.missed == units.Never {
		q.missed = now + missedAfter
	}
}

// NextExpiry returns when to call ReleaseDue; units.Never means not at all. Push, Arm and RecheckEntries may
// change it.
func (q *CQ) NextExpiry() units.Time { return min(q.due, q.missed, q.pipe.nextArrival()) }

// ReleaseDue delivers the entries whose latency has passed (Latency), and releases an event that was
// held back until now, or that was missed.
func (q *CQ) ReleaseDue(now units.Time) {
	q.addArrived(now)
	if q.due <= now {
		q.raiseEvent()
	}
	if q.missed <= now {
		q.missed = units.Never
		if q.sink.HasEntries(q.armed == forSolicited) {
			q.handleRequested(now)
		}
	}
}

// Channel is a completion channel: the events of the queues made with it, in
// order. The zero value is ready.
type Channel struct {
	// Notify, if set, is called when an event comes into an empty channel: a
	// descriptor has become readable.
	Notify func()

	events queue.FIFO[*CQ]
	queues int // made with it and not destroyed
}

// Len returns the number of waiting events.
func (c *Channel) Len() int { return c.events.Len() }

// Get takes the oldest event and returns its queue. The event must be acknowledged.
func (c *Channel) Get() (*CQ, bool) {
	if c.Len() == 0 {
		return nil, false
	}
	q := c.events.Pop()
	q.pending--
	q.unacked++
	return q, true
}

// Ack acknowledges n events of a queue that were taken (ibv_ack_cq_events).
func (q *CQ) Ack(n int) error {
	if n < 0 || n > q.unacked {
		return fmt.Errorf("%w: %d events acknowledged, but %d were taken and are not acknowledged", syscall.EINVAL, n, q.unacked)
	}
	q.unacked -= n
	return nil
}

// Destroy destroys the channel; EBUSY if queues use it.
func (c *Channel) Destroy() error {
	if c.queues > 0 {
		return fmt.Errorf("%w: %d completion queues use this channel: destroy them first", syscall.EBUSY, c.queues)
	}
	return nil
}

func (c *Channel) putQueue(q *CQ) {
	c.events.Push(q)
	q.pending++
	if c.Len() == 1 && c.Notify != nil {
		c.Notify()
	}
}

// removeEvents removes the events of a queue.
func (c *Channel) removeEvents(q *CQ) {
	c.queues--
	if q.pending == 0 {
		return
	}
	c.events.DeleteFunc(func(e **CQ) bool { return *e == q })
	q.pending = 0
}
