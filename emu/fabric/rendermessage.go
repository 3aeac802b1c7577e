package fabric

import (
	"encoding/binary"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// appendMessage appends the frame of a packet with a Message, before any of it was cut
// off, and fills in the ports of TCP and the checksum of UDP, TCP or ICMP.
func (r *renderer) appendMessage(b []byte, p *packet.Packet) []byte {
	m := p.Message
	own := m.Body.Len()
	n := own
	if m.Inner != nil {
		n += int(m.Inner.Layer3())
	}
	if m.Protocol.Port != 0 {
		n += wire.UDPHeader
	}
	b, rest := appendHeaders(b, p, m.From, m.To, n)
	body := rest
	if m.Protocol.Port != 0 {
		putUDP(rest, p, n)
		body = rest[wire.UDPHeader:]
	}
	m.Body.EncodeTo(body[:own])
	if m.Inner != nil {
		copy(body[own:], r.carried(m.Inner))
	}
	if p.Version != 0 && p.Proto == wire.ProtoTCP {
		binary.BigEndian.PutUint16(body, p.SrcPort)
		binary.BigEndian.PutUint16(body[2:], p.DstPort)
	}
	switch at := checksumAt(p); {
	case p.Version == 0 || at < 0:
	case p.Proto == wire.ProtoICMP:
		binary.BigEndian.PutUint16(rest[at:], 0)
		binary.BigEndian.PutUint16(rest[at:], wire.Checksum(rest, 0))
	default:
		binary.BigEndian.PutUint16(rest[at:], 0)
		sum := wire.Checksum(rest, pseudoHeader(p, n))
		if sum == 0 && p.Proto == wire.ProtoUDP {
			sum = 0xffff // 0 means none (RFC 768)
		}
		binary.BigEndian.PutUint16(rest[at:], sum)
	}
	return b
}

// carried returns the bytes of a packet in a tunnel, from its network header on. Tunnels
// do not nest.
func (r *renderer) carried(p *packet.Packet) []byte {
	if p.Kind == packet.Modelled {
		return r.flows.frame(p)[wire.EthernetHeader:]
	}
	b := r.render(p, r.inner)
	if p.Frame == nil || p.Sum != 0 {
		r.inner = b
	}
	return b[p.L3:]
}

// checksumAt returns the offset of the checksum in the IP payload; -1 if none is
// known here.
func checksumAt(p *packet.Packet) int {
	switch p.Proto {
	case wire.ProtoUDP:
		return 6
	case wire.ProtoTCP:
		return 16
	case wire.ProtoICMP, wire.ProtoICMPv6:
		return 2
	}
	return -1
}

// pseudoHeader sums the words of the pseudo-header for n bytes (RFC 768, RFC 8200 §8.1).
func pseudoHeader(p *packet.Packet, n int) (sum uint32) {
	add := func(b []byte) {
		for ; len(b) > 0; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
	}
	add(p.Message.From.AsSlice())
	add(p.Message.To.AsSlice())
	return sum + uint32(p.Proto) + uint32(n)
}
