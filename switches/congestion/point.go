// Package congestion holds the congestion points of switches: what an egress
// queue does to packets because of its length or because of how long they have
// waited. A new one is a type that implements Point and registers its Kind in
// Points.
//
// A point is a pure state machine: it is told the time and sees its queue, and
// answers. Its randomness comes from Env.
package congestion

import (
	"math/rand/v2"
	"net/netip"

	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Queue is what a point sees of its egress queue: what waits, without the
// packet that is being sent.
type Queue struct {
	Bytes   units.Bytes
	Packets int
	Limit   units.Bytes // most that may wait; 0 when only others limit it
	Rate    units.Rate  // of the link behind it; 0 is unlimited
}

// Point watches one egress queue. Its answers are fates: Fine, Marked (the
// point has marked the packet itself) or a drop.
//
// Every packet that Enqueue does not drop comes back exactly once: to Dequeue
// when its turn has come, or to Removed when it leaves in any other way. A packet
// that finds the port idle passes Enqueue and Dequeue at once.
type Point interface {
	// Enqueue judges a packet that is about to join the queue and fits into
	// it; q does not count it yet. It may rewrite the packet.
	Enqueue(now units.Time, q Queue, p *packet.Packet) packet.Fate
	// Dequeue judges a packet that is about to be sent; q no longer counts
	// it. Its At is when it joined the queue. It may rewrite the packet.
	Dequeue(now units.Time, q Queue, p *packet.Packet) packet.Fate
	// Removed tells of a packet that leaves the queue without being sent; q
	// no longer counts it. why is Trimmed, or the drop that ends it:
	// QueueFull, BufferFull or HeadroomFull if it made room for another, or
	// if the point itself took its room in Enqueue; Watchdog if a pause lasted
	// too long. The packet is lent and stays as it is. The point must not
	// send now: it would take the room that is being made.
	Removed(now units.Time, q Queue, p *packet.Packet, why packet.Fate)
	// Tick is called at the start of the run and then at the time that it
	// returned last, units.Never for none, or at which Env.Wake was called for.
	Tick(now units.Time, q Queue) (next units.Time)
	// Gauges appends the values of the gauges that the point's Kind describes, in
	// their order. Looking changes nothing.
	Gauges(now units.Time, q Queue, values []float64) []float64
}

// Env is what a switch or host lends to a point.
type Env struct {
	Name string // of the queue: "s1:3", or "s1:3 lossless" of a class
	ID   uint64 // of the point, another for each of a fabric
	Rand *rand.Rand
	Pool *packet.Pool
	// Wake has Tick called at a time, in place of the one that Tick returned last. It
	// may be called at any time, also from Tick, whose return value then counts as
	// well if it is earlier.
	Wake func(at units.Time)
	// Agent is the address that messages of the switch come from, of IPv4 or IPv6: the
	// router's own, or one that only says which switch it was (fabric.AgentAddress). At
	// a host it is the host's.
	Agent func(version uint8) netip.Addr
	// ReplyTo makes a message to a sender, with its addresses, Dest and MACs; the point
	// fills in the body, TOS and SrcPort, and sends it. nil if nobody can be found: the
	// packet was of a switch's own, it has no IP and the protocol has, or the protocol has
	// no IP and routers are in between.
	ReplyTo func(to Sender, m *packet.MessageProtocol) *packet.Packet
	// Ends gives the addresses of a modelled flow, by packet.Packet.Flow, whose packets
	// have none.
	Ends func(flow int32) (from, to netip.Addr)
	// Send forwards a packet of the point's own, taken from Pool or made by Reply, by
	// its Dest, like one that arrived. It owns the packet from then on. One with a
	// Message is sealed first; one with a Frame is that frame; a copy of a packet that
	// came is like that. Anything else cannot be captured: it is dropped and counted,
	// as is what is to nobody or longer than packet.MaxFrame.
	Send func(p *packet.Packet)
}

// Reply makes a message to the sender of a packet, as ReplyTo does.
func (e *Env) Reply(to *packet.Packet, m *packet.MessageProtocol) *packet.Packet {
	return e.ReplyTo(SenderOf(to), m)
}

// Sender is the sender of a packet, for a point that answers when the packet is gone.
type Sender struct {
	Origin  packet.Endpoint
	Version uint8      // of IP, 0 when the packet has none
	From    netip.Addr // zero of a modelled flow's packet and of one without IP
}

// SenderOf gives the sender of a packet.
func SenderOf(p *packet.Packet) Sender {
	return Sender{Origin: p.Origin, Version: p.Version, From: p.FlowKey(roce.Port).From}
}

// ArrivalsOnly is implemented by points that judge packets when they join the
// queue and at no other time: Dequeue answers Fine without looking, Removed does
// nothing, and Tick asks for no timer. None of them needs to be called. A port then
// need not wait for a departure to know of it.
type ArrivalsOnly interface{ ArrivalsOnly() }

// Passive can be embedded by points that only judge arrivals.
type Passive struct{}

// Dequeue lets every packet pass.
func (Passive) Dequeue(units.Time, Queue, *packet.Packet) packet.Fate { return packet.Fine }

// Removed does nothing.
func (Passive) Removed(units.Time, Queue, *packet.Packet, packet.Fate) {}

// Gauges has none.
func (Passive) Gauges(_ units.Time, _ Queue, values []float64) []float64 { return values }

// Tick asks for no timer.
func (Passive) Tick(units.Time, Queue) units.Time { return units.Never }

// New makes the point that c chooses, nil for plain drop-tail.
func New(c Config, env Env) Point {
	if c.Settings == nil {
		return nil
	}
	return c.Settings.New(env)
}

// mark sets CE, or does to a packet without ECN what the configuration says.
func mark(p *packet.Packet, n NotECT) packet.Fate {
	switch {
	case p.MarkCE():
		return packet.Marked
	case n == DropNotECT:
		return packet.EarlyDrop
	}
	return packet.Fine
}
