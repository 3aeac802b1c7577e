package packet

import (
	"net/netip"

	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// RoCE is the UDP payload of a packet of an emulated NIC, and its addresses. Payload
// is real bytes, or it is empty and Length is the number of bytes where only lengths
// are modelled. Extensions, ICRC and Truncated are not used.
//
// Congested fabrics hold a million of them, so data that few packets have or many
// share is stored elsewhere.
type RoCE struct {
	*Addresses // of the packet's IP version; never nil
	roce.Packet
	stack *telemetry.Stack // kept when the packet is reused; nil until it has telemetry
}

// Addresses are the two ends of a NIC's packets. Packets share them, and they do not
// change.
type Addresses struct {
	From, To netip.Addr
	Back     *Addresses // the other way round
}

// NewAddresses returns the Addresses of packets between two addresses.
func NewAddresses(from, to netip.Addr) *Addresses {
	a := &[2]Addresses{{From: from, To: to}, {From: to, To: from}}
	a[0].Back, a[1].Back = &a[1], &a[0]
	return &a[0]
}

// Nowhere are the addresses of packets that were not given any.
var Nowhere = NewAddresses(netip.Addr{}, netip.Addr{})

// Stack returns the memory for a packet's in-band telemetry, of undefined content.
// The code that fills it sets the packet's DstPort to telemetry.Port.
func (r *RoCE) Stack() *telemetry.Stack {
	if r.stack == nil {
		r.stack = new(telemetry.Stack)
	}
	return r.stack
}

// Telemetry returns the in-band telemetry of a packet; nil if it has none, or is not
// from a NIC.
func (p *Packet) Telemetry() *telemetry.Stack {
	if p.Kind != NIC || p.DstPort != telemetry.Port && !(p.Returned && p.SrcPort == telemetry.Port) {
		return nil
	}
	return p.RoCE.stack
}

// nicPacket is a packet of a NIC with its RoCE behind it, so that Prefetch knows where that is.
type nicPacket struct {
	Packet
	roce RoCE
}

// NewRoCE returns a packet of a NIC. It is zeroed except for its RoCE, in which only
// Length and Payload, which keeps its capacity, are zeroed: the caller sets the BTH,
// the headers for its opcode, and the Addresses. The caller also sets the packet's
// fields that Parse would set, with the Size of the whole frame, and Src and Dst.
func (l *Pool) NewRoCE() *Packet {
	if l.nics.n == 0 {
		l.nics.used = true
		ps := make([]nicPacket, chunk)
		for i := range ps {
			p := &ps[i]
			p.roce.Addresses = Nowhere
			p.RoCE = &p.roce
			l.nics.pushPacket(&p.Packet)
		}
	}
	p := l.nics.popPacket()
	r := p.RoCE
	r.Payload, r.Length = r.Payload[:0], 0
	*p = Packet{Kind: NIC, home: l.number, RoCE: r}
	l.live++
	return p
}

// cloneRoCE implements ClonePacket for a packet of a NIC.
func (l *Pool) cloneRoCE(p *Packet) *Packet {
	c := l.NewRoCE()
	r := c.RoCE
	r.Addresses = p.RoCE.Addresses
	r.Packet.Set(&p.RoCE.Packet)
	if t := p.Telemetry(); t != nil {
		*r.Stack() = *t
	}
	*c = *p
	c.Next, c.RoCE, c.home = nil, r, l.number
	return c
}
