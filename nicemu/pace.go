package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// pace spaces a queue pair's packets: the next one leaves no earlier than the last
// one takes at the rate that its control allows now.
//
// With a burst, packets leave without a gap until so much has left, and the gap is that
// of all of them.
type pace struct {
	since units.Time  // when the last burst began to leave, or could have if others had not been in the way
	ready units.Time  // since when the next one could leave, while it waits for others
	size  units.Bytes // of the last burst so far, on the wire; 0 before the first
	rate  units.Rate  // for which gap was computed
	gap   units.Time
}

// next is when the next packet may leave.
func (p *pace) next(rate units.Rate, burst units.Bytes) units.Time {
	if rate == 0 || p.size == 0 || p.size < burst {
		return 0
	}
	return p.since + p.interval(rate)
}

// interval is the time that the last burst takes at a rate, which is above 0.
func (p *pace) interval(rate units.Rate) units.Time {
	if p.rate != rate {
		p.rate, p.gap = rate, rate.TimeOf(p.size)
	}
	return p.gap
}

// enter notes that the next packet, which may leave at a time, waits for its turn,
// as the one before did or not.
func (p *pace) enter(now, at units.Time, before bool) {
	if before {
		p.ready = max(p.ready, at)
	} else {
		p.ready = max(now, at)
	}
}

// sent notes a packet that leaves at now. That it had to wait for others puts off
// those behind it by no more than its own time, so that the rate holds on average.
func (p *pace) sent(now units.Time, rate units.Rate, size, burst units.Bytes) {
	if p.size > 0 && p.size < burst {
		p.size, p.rate = p.size+size, 0
		return
	}
	if p.size != size {
		p.size, p.rate = size, 0
	}
	p.since = now
	if rate > 0 {
		p.since = max(min(p.ready, now), now-p.interval(rate))
	}
}

// earliest is when the packet on offer may leave by its rate.
func (q *QP) earliest() units.Time {
	if q.control == nil {
		return 0
	}
	return q.pace.next(q.control.Rate(), q.device.traits.Burst)
}

// leaves tells pacing and rate control of a packet of size bytes on the wire.
func (q *QP) leaves(now units.Time, size units.Bytes) {
	if q.control == nil {
		return
	}
	q.tick(now)
	q.pace.sent(now, q.control.Rate(), size, q.device.traits.Burst)
	q.control.Sent(now, size)
}

// tick has the rate control do what is due, as it must before any other input.
func (q *QP) tick(now units.Time) {
	if q.control != nil && q.control.Timer() <= now {
		q.control.Tick(now)
	}
}

// Rate is at what rate the queue pair may send now, on the wire; 0 is without
// limit. Window is how many bytes may be sent and not acknowledged, 0 likewise.
func (q *QP) Rate() (rate units.Rate, window units.Bytes) {
	if q.control == nil {
		return 0, 0
	}
	q.tick(q.device.Now())
	return q.control.Rate(), q.control.Window()
}

// Renew begins a new flow: the queue pair's rate control is made anew and knows nothing
// of what was sent before. It does nothing without a rate control, or before RTR. EBUSY:
// the queue pair has something to send, or to wait for.
func (q *QP) Renew() error {
	switch {
	case q.control == nil:
		return nil
	case q.engine.Busy():
		return fmt.Errorf("%w: queue pair %d has work requests that are not completed", syscall.EBUSY, q.Number())
	}
	a, _ := q.verbs.Query()
	q.control, q.pace = q.device.settings.Control.Settings.New(q.newFlow(&a)), pace{}
	q.sent, q.acked, q.active = 0, 0, false
	return nil
}

// Control is the queue pair's rate control, up to date; nil if it has none.
func (q *QP) Control() cc.Control {
	q.tick(q.device.Now())
	return q.control
}

// feedback tells a rate control of packets and acknowledgements.
type feedback QP

// Sent implements transport.Feedback. What is on the wire, QP.leaves tells.
func (f *feedback) Sent(_ units.Time, s transport.Sent) {
	if !s.Again && !s.Response {
		f.sent += s.Payload
	}
}

// Acked implements transport.Feedback.
func (f *feedback) Acked(now units.Time, a transport.Acked) {
	if f.control == nil {
		return
	}
	(*QP)(f).tick(now)
	f.acked += a.Payload
	ack := &f.device.ack
	*ack = cc.Ack{
		Acked: f.acked, Sent: f.sent, Newly: a.Payload, Packets: a.Packets, InFlight: a.Flying,
		RTT: a.RTT, Marked: a.Packet.BTH.BECN,
	}
	if t := f.device.heard; t != nil && t.Echo {
		ack.Hops, ack.Path = t.Written(), t.Path
	}
	f.control.Acked(now, ack)
}

// Lost implements transport.Feedback.
func (f *feedback) Lost(now units.Time, l transport.Lost) {
	if f.control == nil {
		return
	}
	(*QP)(f).tick(now)
	f.control.Lost(now, cc.Loss{Payload: l.Payload, Timeout: l.Timeout})
}
