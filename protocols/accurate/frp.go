package accurate

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Port is the UDP port of FRPs, from the range for private use (RFC 6335 §6). UDP carries them
// across routers.
const Port = 54792

// Len is the length of an FRP after the UDP header (§II: 20 bytes).
const Len = 20

// Protocol is the message protocol of FRPs. Its bodies are *FRP.
var Protocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "accurate", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: Port, New: func() packet.Body { return new(FRP) },
})

// Kind is what an FRP says about its flow.
type Kind uint8

const (
	// Regular is the heartbeat of an active flow, one for each period (§II).
	Regular Kind = iota
	// Init announces that a flow begins (§II-B). It is the flow's FRP of that period.
	Init
	// Stop announces that a flow ends (§II-B).
	Stop
	kinds
)

var kindNames = [kinds]string{"frp", "flow-init", "flow-stop"}

// String returns the name used in messages.
func (k Kind) String() string { return kindNames[k] }

// FRP is a flow rate packet (§II), carried by UDP. The paper says that it has 20 bytes, CR and
// DR; the layout is this project's. Fields are in network order:
//
//	0  version, 1, in the upper 4 bits; kind in the lower 4
//	1  flags: 1 response, 2 short-circuit, 4 counted
//	2  number of the period at the flow's source, modulo 65536
//	4  IP protocol of the flow
//	5  destination queue pair of a RoCEv2 flow, 3 bytes; 0 for others
//	8  source port of the flow
//	10 destination port of the flow
//	12 CR in kb/s
//	16 DR in kb/s
//
// The addresses of the flow are in the IP header; a response has them swapped.
type FRP struct {
	Kind Kind
	// Response means that the FRP is on its way back: contention points leave it alone.
	Response bool
	// Short means that a contention point made the response (§II-A).
	Short bool
	// Counted, in a Stop, means that contention points have counted the flow in the period
	// Period: its FRP has been sent.
	Counted bool
	Period  uint16
	// Flow is the key of the packets that the FRP is about. For a modelled flow only Flow,
	// ports and protocol are known; From and To are its addresses.
	Flow     packet.FlowKey
	From, To netip.Addr
	// CR is the current rate: at the source the flow's limit, later the minimum of that and the
	// fair share rates along the path. DR is the rate that the flow wants, limited in the same
	// way (§II-C). Both are written in whole kb/s.
	CR, DR units.Rate
}

var _ cc.Probe = (*FRP)(nil)

const version = 1

const (
	flagResponse = 1 << iota
	flagShort
	flagCounted
	flagsEnd
)

// FlowKey implements cc.Feedback.
func (f *FRP) FlowKey() packet.FlowKey { return f.Flow }

// Reset implements packet.Body.
func (f *FRP) Reset() { *f = FRP{} }

// Set implements packet.Body.
func (f *FRP) Set(from packet.Body) { *f = *from.(*FRP) }

// Len implements packet.Body.
func (f *FRP) Len() int { return Len }

// IsOutward implements cc.Probe.
func (f *FRP) IsOutward() bool { return !f.Response }

// TurnAround implements cc.Probe: the destination sends an FRP back as the response (§II). A Stop
// has none.
func (f *FRP) TurnAround() bool {
	if f.Response || f.Kind == Stop {
		return false
	}
	f.Response = true
	return true
}

// ReplacesOlder implements cc.Probe. Contention points know only the FRPs that have left: for them, a
// flow whose flow-init waits has not begun, and one whose flow-stop waits goes on. A flow that
// begins and stops in the meantime sends neither. Of two responses the newer one counts.
func (f *FRP) ReplacesOlder(older cc.Probe) bool {
	o, ok := older.(*FRP)
	switch {
	case !ok || f.Response:
	case f.Kind == Stop && o.Kind == Init:
		return false
	case f.Kind == Stop && o.Kind == Regular:
		f.Counted = f.Counted && o.Period != f.Period
	case f.Kind == Init && o.Kind == Stop:
		f.Kind = Regular
	case f.Kind == Regular && o.Kind == Init:
		f.Kind = Init
	}
	return true
}

// EncodeTo implements packet.Body.
func (f *FRP) EncodeTo(b []byte) {
	b[0] = version<<4 | uint8(f.Kind)
	b[1] = f.flagBits()
	k := &f.Flow
	binary.BigEndian.PutUint16(b[2:], f.Period)
	binary.BigEndian.PutUint32(b[4:], k.QP&0xffffff)
	b[4] = k.Proto
	binary.BigEndian.PutUint16(b[8:], k.SrcPort)
	binary.BigEndian.PutUint16(b[10:], k.DstPort)
	binary.BigEndian.PutUint32(b[12:], toKilobits(f.CR))
	binary.BigEndian.PutUint32(b[16:], toKilobits(f.DR))
}

func (f *FRP) flagBits() (b uint8) {
	if f.Response {
		b |= flagResponse
	}
	if f.Short {
		b |= flagShort
	}
	if f.Counted {
		b |= flagCounted
	}
	return b
}

// toKilobits converts a rate to kb/s for the wire.
func toKilobits(r units.Rate) uint32 { return uint32(min(r/units.Kbps, math.MaxUint32)) }

// Parse reads an FRP from b, the payload of a UDP datagram sent from one address to another.
// The error says what is wrong.
func (f *FRP) Parse(from, to netip.Addr, b []byte) error {
	f.Reset()
	switch {
	case len(b) < Len:
		return fmt.Errorf("accurate: %d bytes are not an FRP, which has %d", len(b), Len)
	case b[0]>>4 != version:
		return fmt.Errorf("accurate: unknown FRP version %d: must be %d", b[0]>>4, version)
	case Kind(b[0]&15) >= kinds:
		return fmt.Errorf("accurate: unknown kind of FRP %d", b[0]&15)
	case b[1] >= flagsEnd:
		return fmt.Errorf("accurate: unknown flags %#x", b[1])
	}
	f.Kind = Kind(b[0] & 15)
	f.Response, f.Short, f.Counted = b[1]&flagResponse != 0, b[1]&flagShort != 0, b[1]&flagCounted != 0
	if f.Response {
		from, to = to, from
	}
	f.Period = binary.BigEndian.Uint16(b[2:])
	f.Flow = packet.FlowKey{
		From: from, To: to, Proto: b[4], QP: binary.BigEndian.Uint32(b[4:]) & 0xffffff,
		SrcPort: binary.BigEndian.Uint16(b[8:]), DstPort: binary.BigEndian.Uint16(b[10:]), Flow: -1,
	}
	f.CR = units.Rate(binary.BigEndian.Uint32(b[12:])) * units.Kbps
	f.DR = units.Rate(binary.BigEndian.Uint32(b[16:])) * units.Kbps
	return nil
}
