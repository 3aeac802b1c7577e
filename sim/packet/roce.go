package packet

import (
	"net/netip"

	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/protocols/telemetry"
)

// RoCE is what a packet of an emulated NIC carries in UDP, and between which
// addresses. Payload is real bytes, or it is empty and Length says how many
// there are, where only lengths are modelled. Extensions, ICRC and Truncated
// are not used.
type RoCE struct {
	From, To netip.Addr // of the version of IP that the packet has
	roce.Packet
	// INT is in-band telemetry. It is there if DstPort of the packet is
	// telemetry.Port, and of undefined content otherwise.
	INT telemetry.Stack
}

// Telemetry gives the in-band telemetry of a packet; nil if it has none, or is of
// no NIC.
func (p *Packet) Telemetry() *telemetry.Stack {
	if p.Flow != NIC || p.DstPort != telemetry.Port && !(p.Returned && p.SrcPort == telemetry.Port) {
		return nil
	}
	return &p.RoCE.INT
}

// NewRoCE gives a packet of a NIC. It is zeroed but for its RoCE, in which only
// Payload, which keeps its capacity, and Length are: the caller sets the BTH, the
// headers that go with its opcode, and the addresses. Of the packet it sets the
// fields that Parse would find, with the Size of the whole frame, and Src and
// Dst.
func (l *Pool) NewRoCE() *Packet {
	if l.nics == nil {
		ps, rs := make([]Packet, chunk), make([]RoCE, chunk)
		for i := range ps {
			ps[i].RoCE = &rs[i]
			ps[i].Next, l.nics = l.nics, &ps[i]
		}
	}
	p := l.nics
	l.nics = p.Next
	r := p.RoCE
	r.Payload, r.Length = r.Payload[:0], 0
	*p = Packet{Flow: NIC, home: l.number, RoCE: r}
	l.live++
	return p
}

// cloneRoCE is Clone for a packet of a NIC.
func (l *Pool) cloneRoCE(p *Packet) *Packet {
	c := l.NewRoCE()
	r := c.RoCE
	payload := append(r.Payload, p.RoCE.Payload...)
	*r = *p.RoCE
	r.Payload = payload
	*c = *p
	c.Next, c.RoCE, c.home = nil, r, l.number
	return c
}
