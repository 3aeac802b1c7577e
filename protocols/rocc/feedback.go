package rocc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// Types of the messages: 253 of ICMP, as in the paper (§6.2; RFC 4727 §2.1), and 200 of
// ICMPv6, where 253 is not for experiments (RFC 4443 §2.1).
const (
	TypeICMP   = 253
	TypeICMPv6 = 200
)

// Protocol is the protocol of the messages. Their bodies are Feedbacks.
var Protocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "rocc", Proto: wire.ProtoICMP, Proto6: wire.ProtoICMPv6, New: func() packet.Body { return new(Feedback) },
})

// Compute says who computes the fair rate. It is the code of a message (§3.6).
type Compute uint8

const (
	// AtSwitch means that the congestion point computes: messages carry the rate.
	AtSwitch Compute = iota
	// AtHost means that the sender computes: messages carry all inputs of the computation.
	AtHost
	// ByRegistry means that the sender computes, and looks up the parameters by F_max.
	ByRegistry
)

var computeNames = [...]string{"switch", "host", "registry"}

// String returns the name that a lab file uses.
func (c Compute) String() string { return computeNames[c] }

// Names returns the names that a lab file can use.
func (Compute) Names() []string { return computeNames[:] }

// MarshalText returns the name that a lab file uses.
func (c Compute) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the name that a lab file uses.
func (c *Compute) UnmarshalText(b []byte) error {
	for i, name := range computeNames {
		if name == string(b) {
			*c = Compute(i)
			return nil
		}
	}
	return fmt.Errorf("unknown place %q for computing fair rates: must be switch, host or registry", b)
}

// CP identifies a congestion point by the source address of its messages and the number of
// its queue there. The paper uses the address alone; the number distinguishes the ports of
// a switch over which a flow is sprayed.
type CP struct {
	Agent netip.Addr
	Queue uint32
}

// Feedback is a congestion notification of RoCC (§3.3), after the IP header of its packet.
// The paper says what it contains but not in which format; the layout is this project's.
// Fields are in network order:
//
//	0  type, code (Compute), checksum of ICMP or ICMPv6
//	4  fair rate in ΔF; with other codes than 0 that before the computation, in ΔF/65536
//	8  ΔF in kb/s
//	12 number of the queue
//	16 code 1: Qcur, Qold, ΔQ in bytes, Qref, Qmid, Qmax, Fmin, Fmax, α and β in 1/65536
//	   code 2: Qcur, Qold, ΔQ in bytes, Fmax
//	   queue lengths in ΔQ, rates in ΔF, all of 4 bytes
//	then the beginning of the flow's packets: the IP header, UDP or the first 8 bytes of
//	TCP, and of RoCEv2 the BTH
//
// In the quoted headers the addresses, the protocol, the ports and the destination queue
// pair are the flow's. Lengths cover the quoted bytes; all else is 0.
type Feedback struct {
	CP   CP // its Agent is the source of the packet
	Code Compute
	// Flow is the flow that the message is about. From and To are its addresses if Flow has
	// none, as for a modelled flow.
	Flow     packet.FlowKey
	From, To netip.Addr

	Rate   uint32     // the fair rate in ΔF, with AtSwitch
	DeltaF units.Rate // whole kb/s

	// Inputs are the inputs of the computation, with AtHost and ByRegistry. Law is the
	// algorithm with AtHost; with ByRegistry only its FMax is set.
	Inputs Inputs
	DeltaQ units.Bytes
	Law    Law
}

var _ cc.Feedback = (*Feedback)(nil)

// Lengths of the parts of a message.
const (
	headLen     = 16
	valuesLen   = 10 * 4
	registryLen = 4 * 4
	quotedUDP   = wire.UDPHeader
	quotedBTH   = 12
)

// FlowKey implements cc.Feedback.
func (f *Feedback) FlowKey() packet.FlowKey { return f.Flow }

// Reset implements packet.Body.
func (f *Feedback) Reset() { *f = Feedback{} }

// Set implements packet.Body.
func (f *Feedback) Set(from packet.Body) { *f = *from.(*Feedback) }

// valuesLen returns the length of the values between the first headLen bytes and the quoted
// headers.
func (c Compute) valuesLen() int {
	return [...]int{AtSwitch: 0, AtHost: valuesLen, ByRegistry: registryLen}[c]
}

// flowAddresses returns the addresses of the flow.
func (f *Feedback) flowAddresses() (from, to netip.Addr) {
	if f.Flow.From.IsValid() {
		return f.Flow.From, f.Flow.To
	}
	return f.From, f.To
}

// hasBTH reports whether packets of a flow have a BTH after UDP.
func hasBTH(k *packet.FlowKey) bool {
	return k.Proto == wire.ProtoUDP && (k.DstPort == roce.Port || k.DstPort == telemetry.Port)
}

// quotedLen returns the length of the quoted headers after IP.
func (f *Feedback) quotedLen() int {
	if hasBTH(&f.Flow) {
		return quotedUDP + quotedBTH
	}
	return quotedUDP
}

// Len implements packet.Body.
func (f *Feedback) Len() int {
	ip := wire.IPv4Header
	if from, _ := f.flowAddresses(); from.Is6() {
		ip = wire.IPv6Header
	}
	return headLen + f.Code.valuesLen() + ip + f.quotedLen()
}

// EncodeTo implements packet.Body.
func (f *Feedback) EncodeTo(b []byte) {
	clear(b)
	word := func(at int, v int64) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
	from, to := f.flowAddresses()
	if b[0] = TypeICMP; from.Is6() {
		b[0] = TypeICMPv6
	}
	b[1] = uint8(f.Code)
	word(4, int64(f.Rate))
	word(8, int64(f.DeltaF/units.Kbps))
	word(12, int64(f.CP.Queue))
	at := headLen
	put := func(v ...int64) {
		for _, v := range v {
			word(at, v)
			at += 4
		}
	}
	if f.Code != AtSwitch {
		word(4, f.Inputs.F)
		put(f.Inputs.Q, f.Inputs.QOld, int64(f.DeltaQ))
	}
	switch l := &f.Law; f.Code {
	case AtHost:
		put(l.QRef, l.QMid, l.QMax, l.FMin>>gainBits, l.FMax>>gainBits, l.Alpha, l.Beta)
	case ByRegistry:
		put(l.FMax >> gainBits)
	}
	f.putQuote(b[at:], from, to)
}

// putQuote writes headers that identify the flow.
func (f *Feedback) putQuote(b []byte, from, to netip.Addr) {
	k := &f.Flow
	rest := b
	if from.Is6() {
		b[0] = 6 << 4
		binary.BigEndian.PutUint16(b[4:], uint16(f.quotedLen()))
		b[6], b[7] = k.Proto, 64
		putAddresses(b[8:], from, to)
		rest = b[wire.IPv6Header:]
	} else {
		b[0] = 4<<4 | 5
		binary.BigEndian.PutUint16(b[2:], uint16(wire.IPv4Header+f.quotedLen()))
		b[8], b[9] = 64, k.Proto
		putAddresses(b[12:], from, to)
		binary.BigEndian.PutUint16(b[10:], wire.IPv4Checksum(b[:wire.IPv4Header]))
		rest = b[wire.IPv4Header:]
	}
	binary.BigEndian.PutUint16(rest, k.SrcPort)
	binary.BigEndian.PutUint16(rest[2:], k.DstPort)
	if k.Proto == wire.ProtoUDP {
		binary.BigEndian.PutUint16(rest[4:], uint16(f.quotedLen()))
	}
	if hasBTH(k) {
		binary.BigEndian.PutUint32(rest[quotedUDP+4:], k.QP)
	}
}

// putAddresses writes two addresses of one version. An unknown address is zero.
func putAddresses(b []byte, from, to netip.Addr) {
	n := copy(b, from.AsSlice())
	if to.BitLen() == from.BitLen() {
		copy(b[n:], to.AsSlice())
	}
}

// Parse reads a message from agent, starting with its type. Flow has addresses for a
// modelled flow too: the bytes do not distinguish it from other flows.
func (f *Feedback) Parse(agent netip.Addr, b []byte) error {
	f.Reset()
	if len(b) < headLen {
		return fmt.Errorf("rocc: a message of %d bytes is shorter than %d", len(b), headLen)
	}
	if b[0] != TypeICMP && b[0] != TypeICMPv6 || int(b[1]) >= len(computeNames) {
		return fmt.Errorf("rocc: type %d, code %d is not a RoCC message", b[0], b[1])
	}
	f.CP.Agent, f.Code = agent, Compute(b[1])
	at := headLen
	if len(b) < at+f.Code.valuesLen() {
		return fmt.Errorf("rocc: a message of code %d with %d bytes is shorter than %d", f.Code, len(b), at+f.Code.valuesLen())
	}
	word := func(at int) int64 { return int64(binary.BigEndian.Uint32(b[at:])) }
	next := func() (v int64) {
		v = word(at)
		at += 4
		return v
	}
	f.DeltaF = units.Rate(word(8)) * units.Kbps
	f.CP.Queue = uint32(word(12))
	if f.Code == AtSwitch {
		f.Rate = uint32(word(4))
	} else {
		f.Inputs = Inputs{F: word(4), Q: next(), QOld: next()}
		f.DeltaQ = units.Bytes(next())
	}
	switch f.Code {
	case AtHost:
		f.Law = Law{QRef: next(), QMid: next(), QMax: next(), FMin: next() << gainBits, FMax: next() << gainBits, Alpha: next(), Beta: next()}
	case ByRegistry:
		f.Law.FMax = next() << gainBits
	}
	return f.readQuote(b[at:])
}

var errShort = errors.New("rocc: the quoted headers are truncated")

// readQuote reads the flow from quoted headers.
func (f *Feedback) readQuote(b []byte) error {
	if len(b) == 0 {
		return errShort
	}
	k := &f.Flow
	k.Flow = -1
	header := wire.IPv4Header
	switch b[0] >> 4 {
	case 4:
		header = int(b[0]&15) * 4
		if header < wire.IPv4Header || len(b) < header+quotedUDP {
			return errShort
		}
		k.Proto = b[9]
		k.From, k.To = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	case 6:
		header = wire.IPv6Header
		if len(b) < header+quotedUDP {
			return errShort
		}
		k.Proto = b[6]
		k.From, k.To = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	default:
		return fmt.Errorf("rocc: the quoted packet has IP version %d", b[0]>>4)
	}
	rest := b[header:]
	k.SrcPort, k.DstPort = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	if hasBTH(k) {
		if len(rest) < quotedUDP+quotedBTH {
			return errShort
		}
		k.QP = binary.BigEndian.Uint32(rest[quotedUDP+4:]) & 0xffffff
	}
	return nil
}
