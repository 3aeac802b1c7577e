package nicemu

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// doDueWork does the queue pair's work that is due.
func (q *QP) doDueWork(now units.Time) {
	if q.broken {
		q.broken = false
		if s := q.engine.State(); s != qp.Reset {
			_ = q.engine.Modify(qp.Err, transport.Attr{})
			if q.layered != nil {
				q.adoptState(qp.Err)
				q.layered.Moved(qp.RTS, qp.Err)
			}
		}
	}
	if q.engine.NextExpiry() <= now {
		q.engine.DoDueWork(now)
	}
	q.device.rescheduleQP(now, q)
}

// rescheduleQP computes what a queue pair sends next, and when. Every input to it ends here.
func (d *Device) rescheduleQP(now units.Time, q *QP) {
	window := units.Bytes(0)
	if q.control != nil {
		q.runControlTimer(now)
		if q.engine.IsBusy() != q.active {
			q.active = !q.active
			q.control.SetActive(now, q.active)
			if s, ok := q.control.(cc.Sized); ok && q.active {
				s.OnDataQueued(now, q.engine.QueuedBytes())
			}
		}
		d.sendMessages(q)
		window = q.control.Window()
		q.engine.SetWindow(window)
	}
	for q.offer = q.engine.Offer(); q.offer.Kind != transport.Nothing && q.currentRoute() == nil; q.offer = q.engine.Offer() {
		q.engine.FailOffer(cq.LocQPOpErr)
	}
	if s := q.engine.State(); s != q.verbs.State() && q.layered == nil {
		q.adoptState(s)
	}
	prio, ack, urgent, ready := q.prio, q.ack, false, false
	due := q.engine.NextExpiry()
	if q.broken {
		due = now
	}
	switch q.offer.Kind {
	case transport.Nothing:
		if window > 0 && q.engine.IsBusy() { // time may open it
			due = min(due, q.control.NextTimer())
		}
	case transport.Control:
		// What follows is computed when it has been sent, which is before the next turn in this
		// lane.
		prio, ack, urgent, ready = q.route.prio, q.route.ack, true, q.turn.IsLinked()
		q.answer = q.route.headersLen() + q.offer.Bytes + q.telemetryLen(q.offer.Kind)
		if prio != ack {
			// Requests do not wait for an acknowledgement in another lane.
			if q.rest = q.engine.OfferBehind(); q.rest.Kind == transport.Nothing {
				ready = false
			} else {
				ready, due = q.offerIsDue(now, &q.route, q.rest, due)
			}
		}
	default:
		r := q.currentRoute()
		prio, ack = r.prio, r.ack
		ready, due = q.offerIsDue(now, r, q.offer, due)
	}
	if q.control != nil && d.traits.WakeIdle {
		due = min(due, q.control.NextTimer())
	}
	d.agenda.WakeAt(&q.Task, due)
	d.placeQP(q, prio, ack, urgent, ready)
	d.announceNext(prio)
	if ack != prio {
		d.announceNext(ack)
	}
}

// offerIsDue reports whether the data on offer may leave when the port next asks, and when the queue pair
// has work, if that is earlier than due.
func (q *QP) offerIsDue(now units.Time, r *route, o transport.Offer, due units.Time) (bool, units.Time) {
	q.frame = r.headersLen() + o.Bytes + q.telemetryLen(o.Kind)
	at := q.earliestDeparture()
	ready := at <= q.device.earliestPull(now, r.prio)
	if ready {
		q.pace.RecordTurn(now, at, q.turn.IsLinked())
	} else {
		due = min(due, at)
	}
	if q.control != nil {
		due = min(due, q.control.NextTimer())
	}
	return ready, due
}

// earliestPull returns the earliest time at which the port may ask for a packet of a lane. It does not ask
// again before it has sent the current packet.
func (d *Device) earliestPull(now units.Time, prio uint8) units.Time {
	if prio == loopback {
		return now
	}
	return max(now, d.busy)
}

// currentRoute returns the route of the packet on offer: the queue pair's, or that of a datagram's address
// handle; nil if it is gone.
func (q *QP) currentRoute() *route {
	if q.config.Type != qp.UD {
		return &q.route
	}
	if h := q.device.handles.findHandle(q.offer.Path); h != nil {
		return &h.route
	}
	return nil
}
