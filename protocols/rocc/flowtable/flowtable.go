// Package flowtable implements the flow tables of RoCC (Taheri et al., CoNEXT 2020, §3.4).
// They decide which flows the congestion point of an egress queue informs of the fair rate.
//
// A table is a pure state machine of one queue. Its caller passes the time: it has no clock
// and no goroutine. The same inputs and seed give the same results. It only allocates when
// it knows more flows than before.
//
// Three tables know flows exactly: Queued, Recent, Bounded. Three sample packets, so that
// they find the elephants and mostly miss the mice: AFD, ElephantTrap, BubbleCache. In
// these, one sample proves nothing: a flow becomes known with its second. That rule is ours;
// the papers have another measure (AFD the fair share of a flow's count) or none.
package flowtable

import (
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// Flow holds what a message to the sender of a flow needs.
type Flow struct {
	Key     packet.FlowKey
	Version uint8           // of IP
	Origin  packet.Endpoint // source of its packets
}

// Table holds the flows that share a queue. The times passed to it never decrease.
type Table interface {
	// OnArrival records a packet that joins the queue.
	OnArrival(now units.Time, p *packet.Packet)
	// OnDeparture records a packet that leaves the queue, for whatever reason. Every packet that
	// arrives departs once, and belongs to the same flow then.
	OnDeparture(now units.Time, p *packet.Packet)
	// EachFlow calls tell for the flows that are known now, in the order in which they
	// became known, and begins the next interval. A flow is valid only during the call,
	// which must not use the table.
	EachFlow(now units.Time, tell func(f *Flow))
	// Len returns the number of flows that EachFlow would pass now. It changes nothing.
	Len(now units.Time) int
}

// New returns the table of an empty queue. Parameters that are 0 get their defaults. c has
// passed Validate.
func New(c Config, random *rand.Rand) Table {
	c = c.WithDefaults()
	var s store
	sample := sampler{random, c.Sample}
	switch c.Kind {
	case Queued:
		return &queued{store: s}
	case Recent:
		return &queued{store: s, linger: true}
	case Bounded:
		return &bounded{store: s, size: c.Size, age: c.Age}
	case AFD:
		return &afd{store: s, sampler: sample, size: c.Size, counts: newWeights(c.Size)}
	case ElephantTrap:
		return &trap{store: s, sampler: sample, size: c.Size}
	case BubbleCache:
		return &bubble{store: s, sampler: sample, size: c.Size, age: c.Age}
	}
	panic("flowtable: unknown kind " + string(c.Kind))
}

// CountsPacket reports whether a packet belongs to a flow whose sender can be informed of a rate.
// These do not: packets other than IP; messages of a protocol, mostly from switches;
// acknowledgements and CNPs of RoCEv2, which no rate control holds back; and headers on
// their way back, which travel against the flow.
func CountsPacket(p *packet.Packet) bool {
	if p.Version == 0 || p.Message != nil || p.Returned {
		return false
	}
	switch {
	case p.RoCE != nil:
		return obeysLimit(p.RoCE.BTH.Opcode)
	case p.Kind == packet.Real && p.DstPort == roce.Port && p.Proto == wire.ProtoUDP:
		if o, ok := opcodeOf(p); ok {
			return obeysLimit(o)
		}
	}
	return true
}

// obeysLimit reports whether the rate limit of a sender applies to packets of an opcode.
func obeysLimit(o roce.Opcode) bool {
	switch o.Service() {
	case roce.RC, roce.XRC:
		return o.Operation() != roce.Ack && o.Operation() != roce.AtomicAck
	}
	return o != roce.NotifyCongestion
}

// opcodeOf returns the opcode of a RoCEv2 packet with wire bytes.
func opcodeOf(p *packet.Packet) (roce.Opcode, bool) {
	ip := p.Ethernet()
	if len(ip) <= int(p.L3) {
		return 0, false
	}
	ip = ip[p.L3:]
	at := wire.IPv6Header + wire.UDPHeader
	if p.Version == 4 {
		at = int(ip[0]&15)*4 + wire.UDPHeader
	}
	if len(ip) <= at {
		return 0, false
	}
	return roce.Opcode(ip[at]), true
}

// sampler selects packets at random.
type sampler struct {
	rand *rand.Rand
	each int // it selects one in each packets
}

// shouldSample reports whether to sample a packet. It is cheap enough to call before any other
// check.
func (s *sampler) shouldSample() bool { return s.each == 1 || s.rand.IntN(s.each) == 0 }
