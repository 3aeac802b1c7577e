// Package packet defines packets as the fabric sees them: the few header fields that
// forwarding, marking and counting need, parsed once, and the wire bytes if there
// are any. A packet of a modelled flow or of an emulated NIC has none; they are made
// from the fields when needed.
//
// A packet of a real program keeps its Frame. A NIC's packet has a RoCE: the headers after
// UDP as structs, and a payload or only its length. A packet of a system's protocol has a
// Message. A Pool recycles all kinds. A packet is freed where it ends; the pools of a
// parallel run trade their surplus (trade.go), and those of the wall clock return packets
// to their home pool.
//
// Fate lists everything that can happen to a packet. Counters, captures, the report and
// the API use its names.
//
// Super, Piece and train are for hosts with segmentation offload: a packet cut from a
// super-packet is a reference and an offset, with the fields that queues and switches
// need. A train crosses links and ports that let all of its packets pass at once, within
// one event. Runs with and without trains have the same results.
package packet

import (
	"encoding/binary"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Endpoint is the number of a host's port in a fabric: the source or destination of a packet.
type Endpoint int32

// MACControl is the destination of MAC control frames (PFC, PAUSE): the port at
// the other end of the link.
const MACControl Endpoint = -2

// Flood is the destination of broadcast and multicast: every endpoint but the one it came
// from.
const Flood Endpoint = -1

// ByMAC is the destination of a packet that is forwarded by its Ethernet addresses at each
// switch, because the lab file does not have one of them at this place: the destination, or
// the source, from which switches learn. It is also that of a packet to one of the group
// addresses that bridges do not forward (wire.MAC.Reserved).
//
// A switch that knows where the destination is sends the packet as one Toward an endpoint.
// A packet that comes from another switch and still has the Dest ByMAC is being flooded.
const ByMAC Endpoint = -3

// Toward returns the Dest of a packet that is forwarded by its Ethernet addresses, and that
// the last switch sent towards e.
func Toward(e Endpoint) Endpoint { return ByMAC - 1 - e }

// Heading returns the endpoint towards which a packet with this Dest is sent; false if it has
// none, because it goes to several or nobody has found it.
func (e Endpoint) Heading() (Endpoint, bool) {
	switch {
	case e >= 0:
		return e, true
	case e < ByMAC:
		return ByMAC - 1 - e, true
	}
	return 0, false
}

// IsByMAC reports whether a packet with this Dest is forwarded by its Ethernet addresses.
func (e Endpoint) IsByMAC() bool { return e <= ByMAC }

// Kind is what a packet carries.
type Kind uint8

// The kinds.
const (
	Modelled Kind = iota // of a modelled flow: it has the number of its Flow
	Real                 // came from a real program, or was made by a switch
	NIC                  // of an emulated NIC: has a RoCE
	Protocol             // of a protocol that a system defines: has a Message
	Train                // stands for several packets of a real program, see Pool.SplitTrain
)

// Packet is one frame in the network. Exactly one holder owns it at a time (a queue,
// a link, a device) and hands it on or frees it.
//
// It takes three cache lines, and a hop reads only the first.
type Packet struct {
	Next   *Packet     // for the list of the packet's holder
	At     units.Time  // when its holder releases it
	Size   units.Bytes // of the frame, Ethernet header to payload, without FCS
	ID     uint64      // unique in a run: the origin and a count
	Hash   uint64      // of the flow's addresses, protocol and ports, for ECMP
	Dest   Endpoint
	Origin Endpoint
	L3     uint16 // offset of the network header
	In     uint16 // where it came into the node: number of the switch's port, or of the device's queue
	Fate   Fate   // set by the congestion point of the current port, for that port's capture
	Epoch  uint8  // of its link: how often that had gone down before
	Kind   Kind
	BadFCS bool // damaged on a link: the next receiver drops it
	TOS    uint8

	Version uint8 // of IP, 0 for other protocols
	Prio    uint8 // its traffic class, 0 to 7, at the node that holds it
	TTL     uint8
	// Trimmed means cut down to its headers by a switch, Returned also sent back to its source.
	Trimmed, Returned bool
	StaticHops        uint8 // how often a static route of a switch has forwarded it
	home              uint8 // number of the pool that it came from

	// A packet of a real program has its wire bytes from the destination MAC,
	// without FCS, in Frame; or it is a Piece of a super-packet, and its bytes are
	// made when needed (package gso). Other packets have neither. Frame always
	// starts at the beginning of its buffer.
	Frame []byte
	Piece Piece

	Created units.Time // when it entered the fabric
	Flow    int32      // number of its modelled flow; 0 for other kinds
	Seq     uint32     // number of the packet within its modelled flow
	SrcPort uint16
	DstPort uint16
	Ether   uint16 // ethertype, after VLAN tags
	// Sum is the offset in Frame of a TCP or UDP checksum that covers only the
	// pseudo-header so far; 0 when the checksums are complete. The checksum of a
	// Piece is always incomplete.
	Sum   uint16
	IPID  uint16
	Proto uint8

	Depth uint32 // bytes in the queue when Fate was decided; undefined if Fate is Fine
	Label uint32 // IPv6 flow label, 20 bits
	// To is the number of its IP destination among the addresses that the
	// fabric knows, for routers; 0 for any other. Dest is where its Ethernet frame
	// goes: to a station, or to a port of a router on the path.
	To    int32
	Whole units.Bytes // Size before it was trimmed
	Tail  units.Time  // when its last bit reaches the cut-through switch that got its first

	// Src and Dst are the Ethernet addresses set by a router. They are in Frame too;
	// for a Piece they replace the super-packet's. Dst is 0 when no router has
	// forwarded the packet. A packet of a modelled flow or of a NIC has them from
	// the start.
	Src, Dst wire.MAC

	// RoCE is set exactly when Kind is NIC. It is not changed when the packet is
	// Trimmed: then only its beginning, up to Size, is valid.
	RoCE *RoCE

	// Message is set exactly when Kind is Protocol. Like RoCE, it is not changed when
	// the packet is Trimmed.
	Message *Message
}

// IsMessage reports whether the packet is a control message of a system rather than
// application data.
func (p *Packet) IsMessage() bool { return p.Kind == Protocol && !p.Message.Protocol.Data }

// ECN returns the packet's ECN codepoint; wire.NotECT if it is not IP.
func (p *Packet) ECN() uint8 { return p.TOS & 3 }

// MarkCE sets Congestion Experienced, in the fields and in the wire bytes. It
// reports false for a packet that is not ECN-capable, and does not change it.
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

// Layer3 returns the length of the layer-3 packet, which a link's MTU limits.
func (p *Packet) Layer3() units.Bytes {
	if p.L3 == 0 {
		return p.Size - wire.EthernetHeader
	}
	return p.Size - units.Bytes(p.L3)
}

// Ethernet returns the beginning of a real program's packet, with its Ethernet header.
func (p *Packet) Ethernet() []byte {
	if p.Piece.Of != nil {
		return p.Piece.Of.Data
	}
	return p.Frame
}

// HasBytes reports whether a packet has wire bytes or they can be made from it alone
// (Pool.Render): it comes from a real program, a switch or a NIC, or has a Message.
func (p *Packet) HasBytes() bool {
	return p.Kind == NIC || p.Kind == Protocol || p.Frame != nil || p.Piece.Of != nil
}

// MACs returns the packet's current Ethernet addresses.
func (p *Packet) MACs() (dst, src wire.MAC) {
	if p.Dst != 0 {
		return p.Dst, p.Src
	}
	e := p.Ethernet()
	return wire.ReadMAC(e), wire.ReadMAC(e[6:])
}

// ToGroup reports whether the packet is broadcast or multicast.
func (p *Packet) ToGroup() bool {
	if p.Dest.IsByMAC() {
		dst, _ := p.MACs()
		return dst.IsMulticast()
	}
	return p.Dest == Flood
}

// VLAN returns the number of the VLAN in the outermost tag of the packet, 1 to 4095; 0 if it
// has none, or one that carries only a priority.
func (p *Packet) VLAN() uint16 {
	if p.L3 <= wire.EthernetHeader {
		return 0
	}
	return binary.BigEndian.Uint16(p.Ethernet()[wire.EthernetHeader:]) & 0xfff
}

// OnWire returns the size of a frame of n bytes on the wire: padded to the minimum,
// with preamble, FCS and gap.
func OnWire(n units.Bytes) units.Bytes {
	return max(n, wire.EthernetMin) + wire.EthernetOverhead
}
