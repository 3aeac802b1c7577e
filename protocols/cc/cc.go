// Package cc defines the interface between a sender and the congestion control of a flow. A
// control is a pure state machine for one flow at its sender. It is given the time, has no
// clock and no goroutine, and allocates nothing after its creation.
package cc

import (
	"math/rand/v2"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/telemetry"
)

// Control decides how fast one flow may send.
//
// Inputs come in time order. While the flow has something to send, the caller calls OnTimer at the
// instant that NextTimer returns, before any other input of that instant. While the flow is idle,
// the caller may delay OnTimer until just before the next input, or before it calls Rate and
// Window; Tick then does everything that has become due, as if it had been called each time. So
// idle flows cost nothing, unless Traits.WakeIdle wakes them too. The results of NextTimer, Rate
// and Window hold until the next input; callers call them again after each.
//
// Pointers and slices in an input are valid only during the call.
type Control interface {
	// OnPacketSent is called when a packet of the flow begins to leave, as n bytes on
	// the wire; retransmitted packets count.
	OnPacketSent(now units.Time, n units.Bytes)
	// OnAck is called for each acknowledgement.
	OnAck(now units.Time, a *Ack)
	// OnLoss is called for packets that are considered lost and will be retransmitted.
	OnLoss(now units.Time, l Loss)
	// OnCNP is called for a RoCEv2 congestion notification packet (InfiniBand
	// Architecture Specification, Annex A17).
	OnCNP(now units.Time)
	// OnMessage is called for a message of the protocol that the control's Method names,
	// from a switch or from the far end.
	OnMessage(now units.Time, m Feedback)
	// SetActive reports that the flow again has something to send or to wait for, or (false) that
	// all its data is sent and, with a reliable service, acknowledged. A flow begins inactive.
	SetActive(now units.Time, active bool)
	// SetLineRate reports that the sender's port now runs at r, which is above 0.
	SetLineRate(now units.Time, r units.Rate)
	// OnTimer does what is due by now. A call before NextTimer does nothing.
	OnTimer(now units.Time)

	// NextTimer returns the time at which OnTimer is due, or units.Never.
	NextTimer() units.Time
	// Rate returns the highest rate at which the flow may send, in bits per second on the wire;
	// 0 means that the control sets no limit.
	Rate() units.Rate
	// Window returns the most payload that may be sent and not acknowledged; 0 means that the
	// control sets no limit. One packet may be in flight whatever its length, and
	// retransmissions are not held up: a window slows a flow down but never stops it.
	Window() units.Bytes

	// AppendGauges appends the values of the gauges that the control's Method describes, in that
	// order, as of now, which is not before the last input. It does not change the control.
	AppendGauges(now units.Time, values []float64) []float64
}

// Undoer is a control that can undo a reduction, for a sender that finds that nothing was lost
// after all.
type Undoer interface {
	// UndoReduction reverts the reductions by OnLoss since the flow was last without loss.
	UndoReduction(now units.Time)
}

// Burster is a control that paces bursts of several packets, as a sender with segmentation
// offload does.
type Burster interface {
	// BurstSize returns the most payload that may currently leave back to back. The gap that the
	// rate requires follows the whole burst. One packet may always leave.
	BurstSize() units.Bytes
}

// Flow describes the flow that a control is made for.
type Flow struct {
	Line units.Rate // of the sender's port, above 0
	// MTU is the most payload of a packet; Packet is the size of such a packet on the wire,
	// with all headers, preamble, FCS and gap.
	MTU, Packet units.Bytes
	Path        Path
	// DelayedAcks means that the acknowledgement of a packet may wait for another packet, as in
	// TCP: a window of one packet would wait for the receiver's timer.
	DelayedAcks bool
	// Rand is a stream of random numbers that the flows of one port share.
	Rand *rand.Rand
}

// Path describes a flow's path through an idle fabric. It is zero if the path is not known: the
// fabric has no path to the peer when the flow begins.
type Path struct {
	// RTT is the time from when the first bit of a full-size packet leaves until its
	// acknowledgement arrives, with nothing else in the queues.
	RTT units.Time
	// Bottleneck is the rate of the slowest link, 0 if no link has a rate.
	Bottleneck units.Rate
	// Hops is the number of links, so that there are Hops-1 switches.
	Hops int
}

// BDP returns the bandwidth-delay product: what the bottleneck carries in an RTT.
func (p Path) BDP() units.Bytes { return p.Bottleneck.BytesIn(p.RTT) }

// Ack is the content of an acknowledgement.
type Ack struct {
	// Acked and Sent count the flow's payload from its start: what is acknowledged now, and
	// what has been sent so far, without retransmissions.
	Acked, Sent units.Bytes
	// Newly is the payload newly known to have arrived, in order or by a selective
	// acknowledgement, and Packets the number of packets that carried it.
	Newly   units.Bytes
	Packets uint32
	// InFlight is the payload that is sent and not yet acknowledged.
	InFlight units.Bytes
	// RTT is the time since the acknowledged packet began to leave; 0 if it is not known.
	RTT units.Time
	// Marked means that the packet met congestion on its path (CE), if the receiver echoes
	// that.
	Marked bool
	// Hops are the switch ports that the packet went through, in order; empty without in-band
	// telemetry.
	Hops []telemetry.Hop
	Path uint16 // telemetry.Stack.Path: differs if the packet took another path than before
	// Delivery is a sample of the delivery rate. It is set with Traits.NeedsDelivery.
	Delivery Delivery
}

// Delivery says how fast the path delivered recently, as seen by the newest acknowledged packet
// (draft-cheng-iccrg-delivery-rate-estimation-02).
type Delivery struct {
	// Total is the payload delivered so far, and Prior the Total when that packet left.
	Total, Prior units.Bytes
	// Interval is how long it took to deliver Total-Prior; 0 if there is no sample.
	Interval units.Time
	// Limited means that the sender had nothing to send for a part of that time, so that the
	// path may deliver faster.
	Limited bool
	// MinRTT is the lowest RTT of the connection so far, including its handshake's; 0 before
	// the first.
	MinRTT units.Time
}

// Rate returns the sampled rate in payload; 0 if there is no sample.
func (d *Delivery) Rate() units.Rate {
	if d.Interval <= 0 {
		return 0
	}
	return units.Rate(float64(d.Total-d.Prior) * 8 / d.Interval.Seconds())
}

// Loss describes packets that are considered lost.
type Loss struct {
	Payload units.Bytes // that will be sent again
	Timeout bool        // nothing was heard for the ACK timeout; otherwise the receiver asked
	// Again means that the lost packets were sent after the last recovery began. That recovery
	// is over, and TCP begins another at once.
	Again bool
}
