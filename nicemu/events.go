package nicemu

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
)

// AsyncEvent is an asynchronous event, and what it is of (ibv_get_async_event(3)).
type AsyncEvent struct {
	Kind qp.Event
	QP   *QP  // of those of queue pairs
	CQ   *CQ  // of CQErr
	SRQ  *SRQ // of SRQLimitReached
}

// asyncEvents is those that nobody has taken.
type asyncEvents struct {
	list   []AsyncEvent
	notify func()
}

// NextEvent takes the oldest asynchronous event; false if there is none.
func (d *Device) NextEvent() (AsyncEvent, bool) {
	if len(d.events.list) == 0 {
		return AsyncEvent{}, false
	}
	e := d.events.list[0]
	d.events.list = d.events.list[1:]
	return e, true
}

// NotifyEvents sets what is called when an event comes and none was there; nil is
// nothing.
func (d *Device) NotifyEvents(f func()) { d.events.notify = f }

func (d *Device) raise(e AsyncEvent) {
	d.events.list = append(d.events.list, e)
	if len(d.events.list) == 1 && d.events.notify != nil {
		d.events.notify()
	}
}

// forget takes out the events of what is destroyed.
func (d *Device) forget(of func(AsyncEvent) bool) {
	kept := d.events.list[:0]
	for _, e := range d.events.list {
		if !of(e) {
			kept = append(kept, e)
		}
	}
	d.events.list = kept
}

// CQError implements cq.Events.
func (c *CQ) CQError(*cq.CQ) { c.device.raise(AsyncEvent{Kind: qp.CQErr, CQ: c}) }

// QPFatal implements cq.Events.
func (c *CQ) QPFatal(number uint32) {
	d := c.device
	if q := d.numbers.find(number); q != nil {
		d.raise(AsyncEvent{Kind: qp.QPFatal, QP: q})
		d.fail(q)
	}
}

// LimitReached implements qp.SRQEvents.
func (s *SRQ) LimitReached(*qp.SRQ) {
	s.device.raise(AsyncEvent{Kind: qp.SRQLimitReached, SRQ: s})
}
