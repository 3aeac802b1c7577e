// Package flowtable has the flow tables of RoCC (Taheri et al., CoNEXT 2020, §3.4): which
// flows the congestion point of an egress queue tells of the fair rate.
//
// A table is a pure state machine of one queue. It is told the time, and has no clock and
// no goroutine. It answers the same for the same inputs and seed. It allocates when it
// knows more flows than before, and otherwise nothing.
//
// Three tables know flows exactly: Queued, Recent, Bounded. Three sample packets, so that
// they find the elephants and mostly miss the mice: AFD, ElephantTrap, BubbleCache. Of
// these, one sample proves nothing: a flow becomes known with its second. That rule is ours,
// where the papers have a measure of their own (AFD the fair share of a flow's count) or
// none.
package flowtable

import (
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Flow is what a message to the sender of a flow needs.
type Flow struct {
	Key     packet.FlowKey
	Version uint8           // of IP
	Origin  packet.Endpoint // that its packets come from
}

// Table is the flows that share a queue. Times of inputs never decrease.
type Table interface {
	// Arrive tells of a packet that joins the queue.
	Arrive(now units.Time, p *packet.Packet)
	// Depart tells of a packet that leaves the queue, for whatever reason. Every packet
	// that arrives departs once, of the same flow as it came.
	Depart(now units.Time, p *packet.Packet)
	// Feedback calls tell for the flows that are known now, in the order in which they
	// became known, and begins the next interval. A flow is lent for the call, which
	// must not use the table.
	Feedback(now units.Time, tell func(f *Flow))
	// Len is how many flows Feedback would tell now. Looking changes nothing.
	Len(now units.Time) int
}

// New makes the table of an empty queue. A parameter that is 0 has its default. The config
// has passed Validate.
func New(c Config, random *rand.Rand) Table {
	c = c.WithDefaults()
	s := store{known: ring{of: inKnown}}
	sample := sampler{random, c.Sample}
	switch c.Kind {
	case Queued:
		return &queued{store: s}
	case Recent:
		return &queued{store: s, linger: true}
	case Bounded:
		return &bounded{store: s, size: c.Size, age: c.Age, quiet: ring{of: inQuiet}}
	case AFD:
		return &afd{store: s, sampler: sample, size: c.Size, counts: newWeights(c.Size)}
	case ElephantTrap:
		return &trap{store: s, sampler: sample, size: c.Size}
	case BubbleCache:
		return &bubble{store: s, sampler: sample, size: c.Size, age: c.Age}
	}
	panic("flowtable: " + string(c.Kind) + " is none of Kinds")
}

// Counts tells whether a packet is of a flow whose sender can be told of a rate. It is not
// if it is no IP, a message of a protocol (a switch's own, mostly), an acknowledgement or a
// CNP of RoCEv2, which no rate control holds back, or headers on their way back: these go
// against the flow.
func Counts(p *packet.Packet) bool {
	if p.Version == 0 || p.Message != nil || p.Returned {
		return false
	}
	switch {
	case p.RoCE != nil:
		return sends(p.RoCE.BTH.Opcode)
	case p.Flow == packet.Real && p.DstPort == roce.Port && p.Proto == wire.ProtoUDP:
		if o, ok := opcode(p); ok {
			return sends(o)
		}
	}
	return true
}

// sends tells whether packets of an opcode are what a sender may be limited in.
func sends(o roce.Opcode) bool {
	return o != roce.RC.With(roce.Ack) && o != roce.RC.With(roce.AtomicAck) && o != roce.NotifyCongestion
}

// opcode is that of a RoCEv2 packet with wire bytes.
func opcode(p *packet.Packet) (roce.Opcode, bool) {
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

// sampler takes packets at random.
type sampler struct {
	rand *rand.Rand
	each int // it takes one packet in so many
}

// take decides on a packet. It is so cheap that it comes before everything else that a
// packet is looked at for.
func (s *sampler) take() bool { return s.each == 1 || s.rand.IntN(s.each) == 0 }
