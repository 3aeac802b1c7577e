// Package packet is the packet as the fabric sees it: the few header fields
// that forwarding, marking and counting need, parsed once, and the wire bytes
// if it has any. A packet of a modelled flow or of an emulated NIC has none;
// they are made from the fields where somebody looks.
package packet

import (
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/units"
)

// Endpoint numbers the ports of hosts in a fabric; it is where a packet comes
// from and goes to.
type Endpoint int32

// MACControl is the destination of MAC control frames (PFC, PAUSE): the port at
// the other end of the link.
const MACControl Endpoint = -2

// Flood is the destination of broadcast, multicast and unknown unicast: every
// endpoint but the one it came from.
const Flood Endpoint = -1

// What Flow is of packets that are of no modelled flow.
const (
	Real int32 = -1 // came from a real program, or was made by a switch
	NIC  int32 = -2 // of an emulated NIC: has a RoCE

	Protocol int32 = -3 // of a protocol that a system brings: has a Message
)

// Packet is one frame on its way. Exactly one holder owns it at a time (a
// queue, a link, a device) and hands it on or frees it.
//
// It takes three cache lines, and a hop looks only at the first.
type Packet struct {
	Next   *Packet     // for the list of the packet's holder
	At     units.Time  // when its holder lets go of it
	Size   units.Bytes // of the frame, Ethernet header to payload, without FCS
	ID     uint64      // unique in a run: the origin and a count
	Hash   uint64      // of the flow's addresses, protocol and ports, for ECMP
	Dest   Endpoint
	Flow   int32 // number of a modelled flow, or Real, NIC or Protocol
	Origin Endpoint
	L3     uint16 // offset of the network header
	In     uint16 // number of the switch's port that it came in through
	Fate   Fate   // what the congestion point of the port that now holds the packet did to it, for that port's capture
	Epoch  uint8  // of the link that carries it: how often that went down before
	BadFCS bool   // damaged on a link: the next receiver drops it
	TOS    uint8

	Version uint8 // of IP, 0 when it is something else
	Prio    uint8 // its traffic class, 0 to 7, at the node that holds it
	TTL     uint8
	home    uint8 // number of the pool that it came from

	// A packet of a real program has its wire bytes from the destination MAC,
	// without FCS, in Frame; or it is a Piece of a super-packet, and its bytes
	// are made where somebody looks (package gso). Others have neither. Frame
	// always begins where its buffer does.
	Frame []byte
	Piece Piece

	Born    units.Time // when it entered the fabric
	Depth   uint32     // bytes in the queue, when Fate was decided
	Seq     uint32     // number of the packet within its modelled flow
	SrcPort uint16
	DstPort uint16
	Ether   uint16 // ethertype, behind VLAN tags
	// Sum is the offset in Frame of a TCP or UDP checksum that covers only the
	// pseudo-header so far; 0 when the checksums are complete. The checksum of
	// a Piece is always still to be made.
	Sum uint16

	IPID       uint16
	Proto      uint8
	Trimmed    bool   // cut down to its headers by a switch
	Returned   bool   // and sent back to where it came from
	StaticHops uint8  // how often a static route of a switch has sent it on
	Label      uint32 // IPv6 flow label, 20 bits
	// To is the number of its IP destination among the addresses that the
	// fabric knows, for routers; 0 for any other. Dest is where its Ethernet
	// frame goes: to a station, or to a port of a router on the way.
	To    int32
	Whole units.Bytes // Size before it was trimmed
	Tail  units.Time  // when its last bit reaches the cut-through switch that got the first ones

	// Src and Dst are the Ethernet addresses that a router has given it. They
	// stand in Frame too; for a Piece they replace those of the super-packet.
	// Dst is 0 when no router has sent the packet on. A packet of a modelled
	// flow or of a NIC has them from the beginning.
	Src, Dst wire.MAC

	// RoCE is there exactly when Flow is NIC. It stays whole when the packet is
	// Trimmed: then only the beginning of it, up to Size, is left.
	RoCE *RoCE

	// Message is there exactly when Flow is Protocol. As RoCE it stays whole when the
	// packet is Trimmed.
	Message *Message
}

// IsMessage tells whether the packet is what systems say to each other, and not what
// applications do.
func (p *Packet) IsMessage() bool { return p.Flow == Protocol && !p.Message.Protocol.Data }

// ECN is the packet's ECN codepoint; wire.NotECT for what is not IP.
func (p *Packet) ECN() uint8 { return p.TOS & 3 }

// MarkCE sets Congestion Experienced, in the fields and in the wire bytes. It
// reports false for a packet that is not ECN-capable, and leaves it alone.
func (p *Packet) MarkCE() bool {
	if p.Version == 0 || p.ECN() == wire.NotECT {
		return false
	}
	if p.ECN() == wire.CE {
		return true
	}
	p.TOS |= wire.CE
	if p.Frame != nil {
		wire.SetTOS(p.Frame[p.L3:], p.TOS)
	}
	return true
}

// SetECN changes the ECN codepoint of an IP packet, in the fields and in the wire bytes.
func (p *Packet) SetECN(codepoint uint8) {
	if p.Version == 0 || p.ECN() == codepoint {
		return
	}
	p.TOS = p.TOS&^3 | codepoint
	if p.Frame != nil {
		wire.SetTOS(p.Frame[p.L3:], p.TOS)
	}
}

// Layer3 is the length of the layer-3 packet, which a link's MTU limits.
func (p *Packet) Layer3() units.Bytes {
	if p.L3 == 0 {
		return p.Size - wire.EthernetHeader
	}
	return p.Size - units.Bytes(p.L3)
}

// Ethernet is the beginning of a real program's packet, with its Ethernet
// header.
func (p *Packet) Ethernet() []byte {
	if p.Piece.Of != nil {
		return p.Piece.Of.Data
	}
	return p.Frame
}

// HasBytes tells whether a packet has wire bytes or they can be made of it
// alone (Pool.Render): it is of a real program, of a switch, of a NIC, or has a Message.
func (p *Packet) HasBytes() bool {
	return p.Flow == NIC || p.Flow == Protocol || p.Frame != nil || p.Piece.Of != nil
}

// MACs gives its Ethernet addresses as they are now.
func (p *Packet) MACs() (dst, src wire.MAC) {
	if p.Dst != 0 {
		return p.Dst, p.Src
	}
	e := p.Ethernet()
	return wire.ReadMAC(e), wire.ReadMAC(e[6:])
}

// OnWire is what a frame of n bytes takes of a link: padded to the minimum,
// with preamble, FCS and gap.
func OnWire(n units.Bytes) units.Bytes {
	return max(n, wire.EthernetMin) + wire.EthernetOverhead
}
