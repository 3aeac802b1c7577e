// Package cc is the seam for rate control: what a NIC tells the congestion
// control of a flow and what that answers. A control is a pure state machine of
// one flow at its sender. It is given the time, has no clock and no goroutine,
// and allocates nothing after it was made.
package cc

import "github.com/weftlab/weft/sim/units"

// Control decides how fast one flow may send.
//
// Inputs come in the order of time. Whoever drives a control calls Tick at the
// instant that Timer gives, before any other input of that instant, while the flow
// has something to send. While it has not, Tick may be left out until just before
// the next input, or before Rate and Window are asked; it then does all that was
// due meanwhile, as if it had been called each time. So flows that rest cost
// nothing. Timer, Rate and Window hold until the next input; they are asked anew
// after each.
type Control interface {
	// Sent tells of a packet of the flow that begins to leave, as n bytes on
	// the wire; retransmitted packets count.
	Sent(now units.Time, n units.Bytes)
	// Acked tells of an acknowledgement. What a points to is lent for the call.
	Acked(now units.Time, a Ack)
	// CNP tells of a RoCEv2 congestion notification packet (InfiniBand
	// Architecture Specification, Annex A17).
	CNP(now units.Time)
	// Advised tells of a rate that a switch has computed.
	Advised(now units.Time, a Advice)
	// Line tells that the sender's port now runs at r, which is above 0.
	Line(now units.Time, r units.Rate)
	// Tick does what is due by now. A call before Timer does nothing.
	Tick(now units.Time)

	// Timer is when Tick is due, units.Never if it is not.
	Timer() units.Time
	// Rate is the most at which the flow may send, in bits per second on the
	// wire; 0 is without a limit of its own.
	Rate() units.Rate
	// Window is the most that may be sent and not acknowledged; 0 is without
	// a limit of its own.
	Window() units.Bytes
}

// Ack is what an acknowledgement says.
type Ack struct {
	// Acked and Sent count the flow's bytes from its start: those that are
	// acknowledged now and those sent for the first time so far.
	Acked, Sent units.Bytes
	// RTT is from when the acknowledged packet began to leave until now; 0
	// when it is not known.
	RTT units.Time
	// Marked is that the packet met congestion on its way (CE).
	Marked bool
	// Hops are the switch ports that the packet went through, first one first;
	// empty without in-band telemetry.
	Hops []Hop
}

// Hop is what a switch's egress port wrote into a packet: in-band telemetry as
// HPCC uses it (Li et al., SIGCOMM 2019, §3).
type Hop struct {
	Rate  units.Rate  // of the port
	At    units.Time  // when the packet left, by the switch's clock
	Sent  units.Bytes // by the port, from its start
	Queue units.Bytes // behind the packet
}

// Advice is a rate for the flow from a congestion point.
type Advice struct {
	Point uint64 // which one: equal for equal points
	Rate  units.Rate
}

// Deaf can be embedded by a control that needs only some of the inputs and sets
// no window. Alone it is the control that does not control.
type Deaf struct{}

var _ Control = Deaf{}

// Sent does nothing.
func (Deaf) Sent(units.Time, units.Bytes) {}

// Acked does nothing.
func (Deaf) Acked(units.Time, Ack) {}

// CNP does nothing.
func (Deaf) CNP(units.Time) {}

// Advised does nothing.
func (Deaf) Advised(units.Time, Advice) {}

// Line does nothing.
func (Deaf) Line(units.Time, units.Rate) {}

// Tick does nothing.
func (Deaf) Tick(units.Time) {}

// Timer asks for no timer.
func (Deaf) Timer() units.Time { return units.Never }

// Rate sets no limit.
func (Deaf) Rate() units.Rate { return 0 }

// Window sets no limit.
func (Deaf) Window() units.Bytes { return 0 }
