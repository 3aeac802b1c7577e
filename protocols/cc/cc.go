// Package cc is the seam for rate control: what a sender tells the congestion
// control of a flow and what that answers. A control is a pure state machine of
// one flow at its sender. It is given the time, has no clock and no goroutine,
// and allocates nothing after it was made.
package cc

import (
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/telemetry"
	"github.com/weftlab/weft/sim/units"
)

// Control decides how fast one flow may send.
//
// Inputs come in the order of time. While the flow has something to send, the caller
// calls Tick at the instant that Timer gives, before any other input of that instant.
// While the flow is idle, Tick may be left out until just before the next input, or
// before Rate and Window are called; it then does everything that has become due, as
// if it had been called each time. So idle flows cost nothing, unless Traits.WakeIdle
// has them woken too. The results of Timer, Rate and Window hold until the next
// input; callers call them again after each.
//
// What a pointer or slice of an input points to is lent for the call.
type Control interface {
	// Sent is called when a packet of the flow begins to leave, as n bytes on
	// the wire; retransmitted packets count.
	Sent(now units.Time, n units.Bytes)
	// Acked is called for each acknowledgement.
	Acked(now units.Time, a *Ack)
	// Lost is called for packets that are taken for lost and will be retransmitted.
	Lost(now units.Time, l Loss)
	// CNP is called for a RoCEv2 congestion notification packet (InfiniBand
	// Architecture Specification, Annex A17).
	CNP(now units.Time)
	// Message is called for a message of the protocol that the control's Method names,
	// from a switch or from the far end.
	Message(now units.Time, m Feedback)
	// Active tells that the flow has something to send or to wait for again, or
	// (false) that everything it had is sent and, with a reliable service,
	// acknowledged. A flow begins as not active.
	Active(now units.Time, active bool)
	// Line tells that the sender's port now runs at r, which is above 0.
	Line(now units.Time, r units.Rate)
	// Tick does what is due by now. A call before Timer does nothing.
	Tick(now units.Time)

	// Timer is when Tick is due, units.Never if it is not.
	Timer() units.Time
	// Rate is the most at which the flow may send, in bits per second on the
	// wire; 0 is without a limit of its own.
	Rate() units.Rate
	// Window is the most payload that may be sent and not acknowledged; 0 is
	// without a limit of its own. One packet may fly whatever its length, and
	// what is sent again is not held up: a window slows a flow down, and never
	// stops it.
	Window() units.Bytes

	// Gauges appends the values of the gauges that the control's Method
	// describes, in their order, as they are at now, which is not before the
	// last input. Looking changes nothing.
	Gauges(now units.Time, values []float64) []float64
}

// Undoer is a control that can take a reduction back, for a sender that finds out that
// nothing was lost after all.
type Undoer interface {
	// Undo takes back the reductions by Lost since the flow was last without loss.
	Undo(now units.Time)
}

// Burster is a control that paces and has several packets leave at once, as a sender with
// segmentation offload does.
type Burster interface {
	// Burst is the most payload that may leave back to back at present. The pause that the
	// rate asks for comes behind all of it. A packet may always leave.
	Burst() units.Bytes
}

// Flow is what a control is made for.
type Flow struct {
	Line units.Rate // of the sender's port, above 0
	// MTU is the most payload of a packet; Packet is such a packet on the wire,
	// with all headers, preamble, FCS and gap.
	MTU, Packet units.Bytes
	Path        Path
	// DelayedAcks means that the acknowledgement of a packet may wait for another packet, as in
	// TCP: a window of one packet would wait for the receiver's timer.
	DelayedAcks bool
	// Rand is a stream of random numbers that the flows of one port share.
	Rand *rand.Rand
}

// Path is a flow's way through an idle fabric. It is the zero Path where it is not
// known: the fabric has no way to the peer when the flow begins.
type Path struct {
	// RTT is from when the first bit of a packet of full size leaves until its
	// acknowledgement is there, with nothing else in the queues.
	RTT units.Time
	// Bottleneck is the rate of the slowest link, 0 if none has one.
	Bottleneck units.Rate
	// Hops is the number of links, so that there are Hops-1 switches.
	Hops int
}

// BDP is the bandwidth-delay product: what the bottleneck carries in an RTT.
func (p Path) BDP() units.Bytes { return p.Bottleneck.Per(p.RTT) }

// Ack is what an acknowledgement says.
type Ack struct {
	// Acked and Sent count the flow's payload from its start: what is
	// acknowledged now and what was sent for the first time so far.
	Acked, Sent units.Bytes
	// Newly is how much more of the payload is known to have arrived, in order or by a
	// selective acknowledgement, and Packets in how many packets.
	Newly   units.Bytes
	Packets uint32
	// InFlight is the payload that is sent and still not acknowledged.
	InFlight units.Bytes
	// RTT is from when the acknowledged packet began to leave until now; 0
	// when it is not known.
	RTT units.Time
	// Marked means that the packet met congestion on its way (CE), where the
	// receiver echoes that.
	Marked bool
	// Hops are the switch ports that the packet went through, first one first;
	// empty without in-band telemetry.
	Hops []telemetry.Hop
	Path uint16 // telemetry.Stack.Path: differs where the packet went another way than before
	// Delivery is a sample of the delivery rate. It is there with Traits.NeedsDelivery.
	Delivery Delivery
}

// Delivery is how fast the path lately delivered, as the newest packet that was
// acknowledged has seen it (draft-cheng-iccrg-delivery-rate-estimation-02).
type Delivery struct {
	// Total is the payload that has been delivered so far, and Prior was Total when that
	// packet left.
	Total, Prior units.Bytes
	// Interval is how long it took to deliver Total-Prior; 0 where there is no sample.
	Interval units.Time
	// Limited means that the sender had nothing to send for a part of that time, so that the
	// path may deliver faster.
	Limited bool
	// LeastRTT is the least RTT of the connection so far, with that of its handshake; 0
	// before the first.
	LeastRTT units.Time
}

// Rate is the sample, in payload; 0 if there is none.
func (d *Delivery) Rate() units.Rate {
	if d.Interval <= 0 {
		return 0
	}
	return units.Rate(float64(d.Total-d.Prior) * 8 / d.Interval.Seconds())
}

// Loss is packets that are taken for lost.
type Loss struct {
	Payload units.Bytes // that will be sent again
	Timeout bool        // nothing was heard for the ACK timeout; otherwise the receiver asked
	// Again means that what is lost was sent after the last recovery began. That recovery is
	// over, and TCP begins another at once.
	Again bool
}
