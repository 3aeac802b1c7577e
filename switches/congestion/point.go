// Package congestion holds the congestion points of switches: what an egress queue does to
// packets because of its length or their waiting time. To add one, implement Point and
// register its Kind in Points.
//
// A point is a pure state machine: its inputs are the time and its queue. Its randomness
// comes from Env.
package congestion

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Queue is what a point sees of its egress queue: the packets that wait, without the
// packet that is being sent.
type Queue struct {
	Bytes   units.Bytes
	Packets int
	Limit   units.Bytes // maximum length; 0 if there is no separate limit
	Rate    units.Rate  // of its link; 0 means unlimited
}

// Point watches one egress queue. It returns fates: Fine, Marked (the point has marked the
// packet itself) or a drop.
//
// Every packet that OnEnqueue does not drop comes back exactly once: to OnDequeue when it is
// its turn, or to OnRemoved when it leaves otherwise. A packet that finds the port idle
// passes OnEnqueue and OnDequeue at once.
type Point interface {
	// OnEnqueue judges a packet that is about to join the queue and fits into
	// it; q does not count it yet. It may rewrite the packet.
	OnEnqueue(now units.Time, q Queue, p *packet.Packet) packet.Fate
	// OnDequeue judges a packet that is about to be sent; q no longer counts it. p.At is
	// when it joined the queue. It may rewrite the packet.
	OnDequeue(now units.Time, q Queue, p *packet.Packet) packet.Fate
	// OnRemoved reports a packet that leaves the queue without being sent; q no longer
	// counts it. why is Trimmed, or the reason for the drop: QueueFull, BufferFull or
	// HeadroomFull if it made room for another, or if the point itself took its room in
	// Enqueue; Watchdog if a pause lasted too long. The packet is valid only during the
	// call and must not be changed. The point must not send now: it would take the room
	// that is being made.
	OnRemoved(now units.Time, q Queue, p *packet.Packet, why packet.Fate)
	// OnTimer is called at the start of the run and then at the time that it last returned,
	// units.Never for none, or at the time passed to Env.Wake.
	OnTimer(now units.Time, q Queue) (next units.Time)
	// AppendGauges appends the values of the gauges that the point's Kind describes, in that
	// order. It changes nothing.
	AppendGauges(now units.Time, q Queue, values []float64) []float64
}

// Env is what a switch or host provides to a point.
type Env struct {
	Name string // of the queue: "s1:3", or "s1:3 lossless" for a class
	ID   uint64 // of the point, unique in a fabric
	Rand *rand.Rand
	Pool *packet.Pool
	// Wake schedules a call of OnTimer, replacing the time that OnTimer last returned. It may be
	// called at any time, also from OnTimer, whose return value then also counts if it is
	// earlier.
	Wake func(at units.Time)
	// Agent returns the source address of the switch's messages, IPv4 or IPv6: the address
	// of a router, or one that only identifies the switch (fabric.AgentAddress). At a host
	// it is the host's address.
	Agent func(version uint8) netip.Addr
	// ReplyTo returns a message to a sender, with addresses, Dest and MACs; the point
	// fills in the body, TOS and SrcPort, and sends it. It returns nil if there is no
	// destination: the packet came from a switch, it has no IP but the protocol does, or
	// the protocol has no IP and routers are in between.
	ReplyTo func(to Sender, m *packet.MessageProtocol) *packet.Packet
	// Ends returns the addresses of a modelled flow, identified by packet.Packet.Flow. Its
	// packets have no addresses.
	Ends func(flow int32) (from, to netip.Addr)
	// Send forwards a packet of the point, taken from Pool or made by NewReply, by its Dest,
	// like one that arrived. It takes ownership of the packet. A packet with a Message is
	// sealed first, one with a Frame is sent as that frame, and a copy of a packet that
	// arrived is sent like that packet. Anything else cannot be captured: it is dropped
	// and counted, as is a packet without a destination or longer than packet.MaxFrame.
	Send func(p *packet.Packet)
}

// NewReply returns a message to the sender of a packet, as ReplyTo does.
func (e *Env) NewReply(to *packet.Packet, m *packet.MessageProtocol) *packet.Packet {
	return e.ReplyTo(SenderOf(to), m)
}

// Sender is the sender of a packet, for a point that answers after the packet has left.
type Sender struct {
	Origin  packet.Endpoint
	Version uint8      // of IP, 0 if the packet has none
	From    netip.Addr // zero for a packet of a modelled flow or without IP
}

// SenderOf returns the sender of a packet.
func SenderOf(p *packet.Packet) Sender {
	return Sender{Origin: p.Origin, Version: p.Version, From: p.FlowKey(roce.Port).From}
}

// ArrivalsOnly is implemented by points that judge packets only when they join the queue:
// Dequeue always returns Fine, OnRemoved does nothing, and OnTimer asks for no timer. None of
// them needs to be called, so a port can account for a departure before it happens.
type ArrivalsOnly interface{ ArrivalsOnly() }

// Passive can be embedded in points that only judge arrivals.
type Passive struct{}

// OnDequeue lets every packet pass.
func (Passive) OnDequeue(units.Time, Queue, *packet.Packet) packet.Fate { return packet.Fine }

// OnRemoved does nothing.
func (Passive) OnRemoved(units.Time, Queue, *packet.Packet, packet.Fate) {}

// AppendGauges appends nothing.
func (Passive) AppendGauges(_ units.Time, _ Queue, values []float64) []float64 { return values }

// OnTimer asks for no timer.
func (Passive) OnTimer(units.Time, Queue) units.Time { return units.Never }

// New returns the point that c selects, nil for plain drop-tail.
func New(c Choice, env Env) Point {
	if c.Settings == nil {
		return nil
	}
	return c.Settings.New(env)
}

// KindOf returns the kind of the point that c selects; the zero Kind for plain drop-tail. It
// panics if no kind has the name in c.
func KindOf(c Choice) Kind {
	if c.Settings == nil {
		return Kind{}
	}
	kind, err := Points.Find(c.Name)
	if err != nil {
		panic(fmt.Sprintf("a congestion point of unknown kind: %v", err))
	}
	return kind
}

// markPacket sets CE, or treats a packet without ECN as n says.
func markPacket(p *packet.Packet, n NotECT) packet.Fate {
	switch {
	case p.MarkCE():
		return packet.Marked
	case n == DropNotECT:
		return packet.EarlyDrop
	}
	return packet.Fine
}
