package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/pace"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// earliestDeparture returns the time when the packet on offer may leave at its rate.
func (q *QP) earliestDeparture() units.Time {
	if q.control == nil && q.limiter == nil && q.static == 0 {
		return 0
	}
	return q.pace.Next(q.pacingRate(), q.burstSize())
}

// reportSent reports to pacing and rate control a sent packet of size bytes on the wire, whose address
// vector has a static rate (qp.StaticRate).
func (q *QP) reportSent(now units.Time, size units.Bytes, static uint8) {
	if static != q.static { // the turn was computed for another rate
		q.static = static
		q.pace.RecordTurn(now, now, false)
	}
	if q.control == nil && q.limiter == nil && static == 0 {
		return
	}
	q.runControlTimer(now)
	q.pace.RecordSent(now, q.pacingRate(), size, q.burstSize())
	if q.limiter != nil {
		q.countTowardsLimit(size)
	}
	if q.control != nil {
		q.control.OnPacketSent(now, size)
	}
}

// runControlTimer runs the rate control's timer if it is due, as is necessary before any other input.
func (q *QP) runControlTimer(now units.Time) {
	if q.control != nil && q.control.NextTimer() <= now {
		q.control.OnTimer(now)
	}
}

// Rate returns the rate at which the queue pair may send now, on the wire, by its rate control,
// rate limit and static rate; 0 means no limit. window is the number of bytes that may be in
// flight, 0 likewise.
func (q *QP) Rate() (rate units.Rate, window units.Bytes) {
	switch {
	case q.layered != nil:
		return q.layered.Allows()
	case q.control == nil:
		return q.pacingRate(), 0
	}
	q.runControlTimer(q.device.Now())
	return q.pacingRate(), q.control.Window()
}

// RenewFlow begins a new flow: the queue pair gets a new rate control, which knows nothing of earlier
// traffic. It does nothing without a rate control, or before RTR. EBUSY: the queue pair has
// something to send, or to wait for.
func (q *QP) RenewFlow() error {
	if q.layered != nil && !q.isTwin() {
		if q.layered.Busy() {
			return fmt.Errorf("%w: queue pair %d has work requests that are not completed", syscall.EBUSY, q.Number())
		}
		q.layered.Renew()
	}
	switch {
	case q.control == nil:
		return nil
	case q.engine.IsBusy():
		return fmt.Errorf("%w: queue pair %d has work requests that are not completed", syscall.EBUSY, q.Number())
	}
	a, _ := q.verbs.Query()
	q.control, q.pace = q.device.settings.Control.Settings.New(q.newFlow(&a)), pace.Pace{}
	q.sent, q.acked, q.active = 0, 0, false
	return nil
}

// Control returns the queue pair's rate control, up to date; nil if it has none.
func (q *QP) Control() cc.Control {
	q.runControlTimer(q.device.Now())
	return q.control
}

// feedback reports packets and acknowledgements to a rate control.
type feedback QP

// OnSent implements transport.Feedback. QP.reportSent reports the bytes on the wire.
func (f *feedback) OnSent(_ units.Time, s transport.Sent) {
	if !s.Again && !s.Response {
		f.sent += s.Payload
	}
}

// OnAcked implements transport.Feedback.
func (f *feedback) OnAcked(now units.Time, a transport.Acked) {
	if f.control == nil {
		return
	}
	(*QP)(f).runControlTimer(now)
	f.acked += a.Payload
	ack := &f.device.ack
	*ack = cc.Ack{
		Acked: f.acked, Sent: f.sent, Newly: a.Payload, Packets: a.Packets, InFlight: a.InFlight,
		RTT: a.RTT, Marked: a.Marked,
	}
	if t := f.device.heard; t != nil && t.Echo {
		ack.Hops, ack.Path = t.WrittenHops(), t.Path
	}
	f.control.OnAck(now, ack)
}

// OnLost implements transport.Feedback.
func (f *feedback) OnLost(now units.Time, l transport.Lost) {
	if f.control == nil {
		return
	}
	(*QP)(f).runControlTimer(now)
	f.control.OnLoss(now, cc.Loss{Payload: l.Payload, Timeout: l.Timeout})
}
