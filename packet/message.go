package packet

import (
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Message is the content of a packet of a protocol that a system defines: congestion
// feedback, probes, a tunnel's header. A packet has a Message exactly when its Flow
// is Protocol. A Message has no wire bytes; code that needs them makes them from the
// packet's fields and the body.
//
// A protocol needs nothing else for its packets to be routed, trimmed, returned,
// copied, captured and counted like others.
type Message struct {
	From, To netip.Addr // of the packet's IP version; zero for a frame without IP
	Protocol *MessageProtocol
	Body     Body
	// Inner is the packet of a tunnel that follows the body, from its network header on;
	// nil if there is none. It is freed and copied with the packet that carries it.
	Inner *Packet
}

// Body is the part after the headers that the protocol defines. It has that protocol's
// type, and is pooled with its packet.
type Body interface {
	// Len returns how many bytes EncodeTo writes; it may depend on the body's content.
	Len() int
	// EncodeTo writes the body to b, which has Len bytes of undefined content.
	EncodeTo(b []byte)
	// Set makes the body a deep copy of another of its type.
	Set(from Body)
	// Reset makes the body like new; it may keep its memory.
	Reset()
}

// MessageProtocol describes the headers of a protocol's packets. Make it with
// NewMessageProtocol, once, in a variable of the protocol's package.
type MessageProtocol struct {
	Name string // for error messages, such as "rocc"
	// Ether is the ethertype of frames without IP; 0 for IP packets, which have Proto
	// over IPv4 and Proto6 over IPv6. With wire.ProtoUDP there is a UDP header, and Port is
	// its destination port. With wire.ProtoTCP the body begins with the TCP header, and
	// SrcPort and DstPort of the packet are set before SetFields. These ports, ICMP's checksum
	// (bytes 2 and 3 of the body), and the checksums of UDP and TCP are filled in when the
	// wire bytes are made.
	Ether         uint16
	Proto, Proto6 uint8
	Port          uint16
	// Data means that bodies are application data and not control messages of systems, so
	// that services of hosts treat the packets like those of real programs.
	Data bool
	// New makes a body.
	New func() Body

	number int
}

var protocolCount int

// NewMessageProtocol registers p. It is called while packages are initialised. It panics
// if p is incomplete or inconsistent.
func NewMessageProtocol(p MessageProtocol) *MessageProtocol {
	udp := p.Proto == wire.ProtoUDP
	if p.Name == "" || p.New == nil || (p.Ether != 0) == (p.Proto != 0 || p.Proto6 != 0) || udp != (p.Port != 0) {
		panic(fmt.Sprintf("packet: the protocol %q has no valid packet format: %+v", p.Name, p))
	}
	p.number = protocolCount
	protocolCount++
	return &p
}

// HeaderLen returns the length of a frame's headers before the body, over a version of
// IP; version is 0 for a protocol without IP.
func (m *MessageProtocol) HeaderLen(version uint8) units.Bytes {
	n := units.Bytes(wire.EthernetHeader)
	switch version {
	case 4:
		n += wire.IPv4Header
	case 6:
		n += wire.IPv6Header
	}
	if m.Port != 0 {
		n += wire.UDPHeader
	}
	return n
}

// NewMessage returns a packet of a protocol with a new body. The packet is zeroed
// except for its Flow and Message: the caller fills in the body and the addresses,
// calls SetFields, and sets TOS, SrcPort, Dest and, where a station sends it, Src and Dst.
func (l *Pool) NewMessage(m *MessageProtocol) *Packet {
	free := l.messagesOf(m)
	p := free.first
	if p == nil {
		p = &Packet{Message: &Message{Protocol: m, Body: m.New()}}
		free.used = true
	} else {
		free.popPacket()
	}
	x := p.Message
	x.From, x.To = netip.Addr{}, netip.Addr{}
	x.Body.Reset()
	x.Inner = nil
	*p = Packet{Kind: Protocol, home: l.number, Message: x}
	l.live++
	return p
}

// SetFields sets the fields of a packet with a Message that Parse would set: from its addresses, its
// protocol, its body, its Inner packet, and SrcPort (for TCP also DstPort), which must be set
// before. TTL becomes 64.
func (p *Packet) SetFields() {
	m := p.Message
	x := m.Protocol
	p.L3, p.TTL = wire.EthernetHeader, 64
	if x.Proto != wire.ProtoTCP {
		p.DstPort = x.Port
	}
	switch {
	case x.Ether != 0:
		p.Version, p.Proto, p.Ether, p.L3, p.TTL = 0, 0, x.Ether, 0, 0
	case m.To.Is4():
		p.Version, p.Proto, p.Ether = 4, x.Proto, wire.EtherTypeIPv4
	default:
		p.Version, p.Proto, p.Ether = 6, x.Proto6, wire.EtherTypeIPv6
	}
	p.Size = x.HeaderLen(p.Version) + units.Bytes(m.Body.Len())
	if m.Inner != nil {
		p.Size += m.Inner.Layer3()
	}
	if p.Version != 0 {
		p.Hash = FlowHash(FoldAddress(m.From), FoldAddress(m.To), p.Proto, p.SrcPort, p.DstPort)
	}
}

// messagesOf returns the stack of free packets of a protocol.
func (l *Pool) messagesOf(m *MessageProtocol) *stack {
	for len(l.messages) <= m.number {
		l.messages = append(l.messages, stack{})
	}
	return &l.messages[m.number]
}

// cloneMessage implements ClonePacket for a packet with a Message.
func (l *Pool) cloneMessage(p *Packet) *Packet {
	c := l.NewMessage(p.Message.Protocol)
	m := c.Message
	m.From, m.To = p.Message.From, p.Message.To
	m.Body.Set(p.Message.Body)
	if p.Message.Inner != nil {
		m.Inner = l.ClonePacket(p.Message.Inner)
	}
	*c = *p
	c.Next, c.Message, c.home = nil, m, l.number
	return c
}

// FoldAddress folds an address into a word for FlowHash, as Parse does.
func FoldAddress(a netip.Addr) uint64 {
	if a.Is4() {
		b := a.As4()
		return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
	}
	b := a.As16()
	return FoldIPv6(b[:])
}

// Destination returns the IP destination of a packet that has no wire bytes but
// whose addresses are known: one from a NIC, or one with a Message.
func (p *Packet) Destination() (to netip.Addr, ok bool) {
	switch {
	case p.Kind == NIC:
		return p.RoCE.To, true
	case p.Kind == Protocol && p.Version != 0:
		return p.Message.To, true
	}
	return netip.Addr{}, false
}
