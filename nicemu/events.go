package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// AsyncEvent is an asynchronous event and its object (ibv_get_async_event(3)). There are no events
// of the device.
type AsyncEvent struct {
	Kind EventKind
	QP   *QP  // of events of queue pairs
	CQ   *CQ  // of EventCQErr
	SRQ  *SRQ // of EventSRQLimitReached
	Port int  // of EventPortErr, EventPortActive and EventGIDChange: 1
}

// asyncEvents holds the events not taken yet.
type asyncEvents struct {
	list   []AsyncEvent
	notify func()
	came   sim.Cond
}

// NextEvent takes the oldest asynchronous event; false if there is none. Events of destroyed
// objects are dropped, so nothing has to be acknowledged.
func (d *Device) NextEvent() (AsyncEvent, bool) {
	if len(d.events.list) == 0 {
		return AsyncEvent{}, false
	}
	e := d.events.list[0]
	d.events.list = d.events.list[1:]
	return e, true
}

// WaitEvent takes the oldest asynchronous event, waiting up to timeout for one; units.Never means
// no limit. ETIMEDOUT: none arrived.
func (d *Device) WaitEvent(p *sim.Process, timeout units.Time) (AsyncEvent, error) {
	end := deadlineAfter(p, timeout)
	for {
		if e, ok := d.NextEvent(); ok {
			return e, nil
		}
		if !d.events.came.Wait(p, end-p.Now()) {
			return AsyncEvent{}, fmt.Errorf("%w: no asynchronous event of %s within %v", syscall.ETIMEDOUT, d.Name(), timeout)
		}
	}
}

// NotifyEvents sets the function called when an event arrives and none was waiting, like a
// descriptor becoming readable; nil removes it. It is called while the NIC is at work: it must not
// use the NIC, but may arm a timer or wake a process.
func (d *Device) NotifyEvents(f func()) { d.events.notify = f }

func (d *Device) raiseEvent(e AsyncEvent) {
	d.events.list = append(d.events.list, e)
	d.events.came.Broadcast()
	if len(d.events.list) == 1 && d.events.notify != nil {
		d.events.notify()
	}
}

// SetLink tells the NIC whether the link of its port is up: the port is ACTIVE or DOWN. A change
// raises EventPortActive or EventPortErr; of each kind one at most waits to be taken. Queue pairs
// stay as they are: what they send meanwhile is lost, and sent again. Without a call the link is up.
func (d *Device) SetLink(up bool) {
	if d.down == !up {
		return
	}
	d.down = !up
	kind := qp.PortErr
	if up {
		kind = qp.PortActive
	}
	d.dropEvents(func(e AsyncEvent) bool { return e.Kind == kind })
	d.raiseEvent(AsyncEvent{Kind: kind, Port: 1})
}

// dropEvents drops the events of a destroyed object.
func (d *Device) dropEvents(of func(AsyncEvent) bool) {
	kept := d.events.list[:0]
	for _, e := range d.events.list {
		if !of(e) {
			kept = append(kept, e)
		}
	}
	clear(d.events.list[len(kept):])
	d.events.list = kept
}
