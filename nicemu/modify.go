package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/pace"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// Modify changes attributes, and the state if the mask has MaskState (ibv_modify_qp(3)). The
// specification says which attributes a transition needs and may have (qp.TransitionOf); Init and
// Join cover the usual cases. An error changes nothing. EINVAL: the arguments are invalid;
// EHOSTUNREACH: no host has the address of the peer.
func (q *QP) Modify(a qp.Attr, m qp.Mask) error {
	d := q.device
	now := d.Now()
	next := q.route
	if m&qp.MaskAV != 0 {
		remote := a.DestQPN
		if m&qp.MaskDestQPN == 0 {
			old, _ := q.verbs.Query()
			remote = old.DestQPN
		}
		var err error
		if next, err = d.makeRoute(&a.AV, q.Number(), remote); err != nil {
			return err
		}
	}
	if m&qp.MaskPKeyIndex != 0 && a.PKeyIndex != 0 {
		return fmt.Errorf("%w: pkey_index is %d: only index 0 has a P_Key, that of the default partition", syscall.EINVAL, a.PKeyIndex)
	}
	from := q.State()
	if err := q.verbs.Modify(a, m); err != nil {
		return err
	}
	if m&qp.MaskAV != 0 {
		q.withdrawCNP() // it would go to another peer
		q.static = next.static
	}
	q.route = next
	if err := q.syncState(from, m&qp.MaskState != 0); err != nil {
		return err
	}
	d.rescheduleQP(now, q)
	if q.layered != nil && !q.isTwin() && m&qp.MaskState != 0 {
		q.layered.Moved(from, a.State)
	}
	d.armTimer()
	return nil
}

// SetState calls Modify with the state alone, where that needs no attributes: to ERR, RESET, SQD,
// and from SQD or SQE to RTS.
func (q *QP) SetState(to State) error { return q.Modify(qp.Attr{State: to}, qp.MaskState) }

// syncState brings the engine to the state of the attributes.
func (q *QP) syncState(from qp.State, moved bool) error {
	d := q.device
	all, _ := q.verbs.Query()
	attr := q.engineAttr()
	if from >= qp.RTR && from <= qp.SQE && all.State != qp.Reset && all.State != qp.Err {
		if err := q.adjustAttributes(attr); err != nil {
			return err
		}
	}
	if !moved {
		return nil
	}
	switch all.State {
	case qp.Reset:
		q.resetScheduling()
	case qp.RTR:
		if q.control == nil && d.settings.Control.Settings != nil && d.line > 0 && q.config.Type != qp.UD {
			q.control = d.settings.Control.Settings.New(q.newFlow(&all))
			q.flow = flowTo{q.route.ends.To, all.DestQPN}
			if d.flows != nil {
				d.flows[q.flow] = q
			}
			if q.config.Type.IsReliable() && !q.route.loop {
				q.room = d.traits.Telemetry
			}
		}
	}
	return q.engine.Modify(all.State, attr)
}

// engineAttr returns the attributes for the engine.
func (q *QP) engineAttr() transport.Attr {
	all, _ := q.verbs.Query()
	a := transport.Attr{
		Access: q.verbs.RemoteAccess(), QKey: all.QKey,
		DestQP: all.DestQPN, RQPSN: transport.PSN(all.RQPSN), PathMTU: units.Bytes(all.PathMTU.Bytes()),
		MaxDestRdAtomic: all.MaxDestRdAtomic, MinRNRTimer: all.MinRNRTimer,
		SQPSN: transport.PSN(all.SQPSN), Timeout: all.Timeout, RetryCount: all.RetryCnt, RNRRetry: all.RNRRetry, MaxRdAtomic: all.MaxRdAtomic,
	}
	if q.config.Type == qp.UD {
		a.PathMTU = units.Bytes(q.device.settings.MTU.Bytes())
	}
	if q.layered != nil {
		a.RetryCount = q.layered.RetryCount(a.RetryCount)
	}
	return a
}

// newFlow returns the parameters for the queue pair's rate control.
func (q *QP) newFlow(a *qp.Attr) cc.Flow {
	d := q.device
	mtu := units.Bytes(a.PathMTU.Bytes())
	onWire := func(o roce.Opcode, payload units.Bytes) units.Bytes {
		return packet.OnWire(q.route.headersLen() + telemetry.StackSize(d.traits.Telemetry) + units.Bytes(serviceOf(q.config.Type).WithOperation(o).PacketLen(int(payload))))
	}
	f := cc.Flow{Line: d.line, MTU: mtu, Packet: onWire(roce.WriteMiddle, mtu), Rand: d.env.Rand}
	if d.traits.NeedsPath && !q.route.loop && d.env.Trip != nil {
		ack := units.Bytes(0)
		if q.config.Type.IsReliable() {
			ack = onWire(roce.Ack, 0)
		}
		f.Path = d.env.Trip(q.route.ends.To, f.Packet, ack)
	}
	return f
}

// adjustAttributes changes the attributes that may change in the engine's current state. The others come with
// the transition that is about to be made.
func (q *QP) adjustAttributes(a transport.Attr) error {
	next := q.engine.Attr()
	next.Access, next.QKey, next.MinRNRTimer = a.Access, a.QKey, a.MinRNRTimer
	if q.engine.State() == qp.SQD {
		next.Timeout, next.RetryCount, next.RNRRetry = a.Timeout, a.RetryCount, a.RNRRetry
		next.MaxRdAtomic, next.MaxDestRdAtomic = a.MaxRdAtomic, a.MaxDestRdAtomic
	}
	return q.engine.AdjustAttributes(next)
}

// resetScheduling clears the state of scheduler and rate control.
func (q *QP) resetScheduling() {
	d := q.device
	d.memory.UnbindQP(q.Number())
	if q.layered != nil {
		d.layerCQs.send.queue.DiscardQP(q.Number())
		d.layerCQs.recv.queue.DiscardQP(q.Number())
	}
	q.withdrawCNP()
	if d.flows[q.flow] == q {
		delete(d.flows, q.flow)
	}
	q.releaseLimiter()
	q.control, q.pace, q.static, q.notice, q.broken = nil, pace.Pace{}, 0, cc.Notification{}, false
	q.sent, q.acked, q.echo, q.active, q.room, q.requestTelemetry = 0, 0, false, false, 0, nil
}

// withdrawCNP drops the waiting CNP, if there is one.
func (q *QP) withdrawCNP() {
	if !q.notified {
		return
	}
	q.notified = false
	d := q.device
	for prio := range d.lanes {
		d.lanes[prio].cnps.DeleteFunc(q.isAt)
		d.announceNext(uint8(prio))
	}
}

// qpEvents takes the events of queue pairs.
type qpEvents struct{ *Device }

// Event implements transport.Events.
func (d qpEvents) Event(number uint32, e qp.Event) {
	q := d.numbers.findQP(number)
	if q == nil || e == qp.SQDrained && !q.verbs.OnDrained() {
		return
	}
	if q.layered != nil && (q.isTwin() || e == qp.QPLastWQEReached && q.State() != qp.Err) {
		return // hidden from the program
	}
	d.raiseEvent(AsyncEvent{Kind: e, QP: q})
}

// failQP takes a queue pair to the error state, as soon as the current operation on it is over.
func (d *Device) failQP(q *QP) {
	q.broken = true
	d.agenda.WakeAt(&q.Task, d.Now())
	d.armTimer()
}

// adoptState moves the attributes to a state that the engine has entered by itself.
func (q *QP) adoptState(s qp.State) {
	switch s {
	case qp.SQE:
		q.verbs.SendFailed()
	case qp.Err:
		q.verbs.MoveToError()
	}
}
