package trim

import (
	"encoding/binary"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TrimPacket trims a packet to its headers and what c keeps after the IP header, and sets
// the trimmed DSCP. It returns the packet that continues instead of p, or nil and
// leaves p unchanged if p cannot be trimmed: it is not IP, is already trimmed, or
// is no longer than the part to keep or the shortest frame.
//
// The transport checksum remains that of the whole packet.
func TrimPacket(pool *packet.Pool, p *packet.Packet, c *Config) *packet.Packet {
	if !CanTrim(p, c) {
		return nil
	}
	size := trimmedLen(p, c)
	if p.Piece.Of != nil || p.Sum != 0 {
		// Materialise the bytes now: the checksum covers what will be cut.
		p = pool.MakeBytes(p)
	}
	p.Trimmed, p.Whole, p.Size = true, p.Size, size
	p.TOS = c.DSCP<<2 | p.TOS&3
	if p.Frame != nil {
		p.Frame = p.Frame[:size]
		ip := p.Frame[p.L3:]
		wire.SetTOS(ip, p.TOS)
		if c.FixLength {
			setLength(ip, p.Version)
		}
	} else if c.FixLength {
		p.Whole = size // used by the code that makes its bytes
	}
	return p
}

// CanTrim reports whether TrimPacket would trim a packet.
func CanTrim(p *packet.Packet, c *Config) bool {
	// Otherwise the packet would be no shorter on the wire.
	return p.Version != 0 && !p.Trimmed && p.Size > max(trimmedLen(p, c), wire.EthernetMin)
}

// trimmedLen returns the length of a packet after trimming by c.
func trimmedLen(p *packet.Packet, c *Config) units.Bytes {
	return units.Bytes(p.L3) + ipHeader(p) + c.Keep
}

// ipHeader returns the length of a packet's IP header without extension headers.
func ipHeader(p *packet.Packet) units.Bytes {
	switch {
	case p.Version == 6:
		return wire.IPv6Header
	case p.Kind != packet.Real:
		return wire.IPv4Header
	}
	return units.Bytes(p.Ethernet()[p.L3]&15) * 4
}

// setLength sets the length in the IP header to the current length of the packet.
func setLength(ip []byte, version uint8) {
	if version == 6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-wire.IPv6Header))
		return
	}
	wire.SetIPv4Length(ip, uint16(len(ip)))
}

// ReturnToSender turns a packet round to go back to its source. With routers on the path,
// Origin, Dest and To remain to be determined: they become those of its last hop.
func ReturnToSender(p *packet.Packet) {
	p.Returned = true
	p.Origin, p.Dest = p.Dest, p.Origin
	p.SrcPort, p.DstPort = p.DstPort, p.SrcPort
	if p.Dst != 0 {
		p.Src, p.Dst = p.Dst, p.Src
	}
	if r := p.RoCE; r != nil {
		r.Addresses = r.Back
	}
	if m := p.Message; m != nil {
		m.From, m.To = m.To, m.From
	}
	if p.Frame == nil {
		return
	}
	swapFields(p.Frame[0:6], p.Frame[6:12])
	ip := p.Frame[p.L3:]
	if p.Version == 4 {
		swapFields(ip[12:16], ip[16:20])
	} else {
		swapFields(ip[8:24], ip[24:40])
	}
	// The ports of TCP and UDP, as in NDP's header. IPv6 extension headers before
	// them do not change.
	header := ipHeader(p)
	first := ip[6]
	if p.Version == 4 {
		first = ip[9]
	}
	if (first == wire.ProtoTCP || first == wire.ProtoUDP) && len(ip) >= int(header)+4 {
		swapFields(ip[header:header+2], ip[header+2:header+4])
	}
}

// swapFields exchanges the content of two fields of one length.
func swapFields(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}
