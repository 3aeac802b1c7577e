package transport

import (
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/protocols/roce"
)

// Packet is a packet between two queue pairs. Which of the headers behind the
// BTH it has, its opcode says.
type Packet struct {
	BTH    roce.BTH
	RETH   roce.RETH
	Atomic roce.AtomicETH
	AETH   roce.AETH
	DETH   roce.DETH
	Old    uint64 // AtomicAckETH: the value before an atomic operation
	Imm    uint32 // ImmDt, or the key of an IETH
	Path   uint32 // of a UD packet to be sent: SendWR.Path

	// Length is of the payload, without padding. Data is the payload, or empty if
	// only its length is modelled. Next appends to Data[:0], so that whoever
	// calls it decides where the bytes go and can use the room again.
	Length uint32
	Data   []byte

	// GRH is what stands in front of the payload of a UD packet in the receive
	// buffer: in RoCEv2 the IPv6 header, or the IPv4 header in the last 20 bytes
	// (annex A17). It is nil if bytes are not modelled.
	GRH *[GRHBytes]byte
}

// GRHBytes is the room that a GRH takes in front of the payload of a datagram.
const GRHBytes = 40

// PSN is the packet sequence number.
func (p *Packet) PSN() PSN { return PSN(p.BTH.PSN) }

// Bytes is the length of the BTH, the headers behind it and the padded payload.
func (p *Packet) Bytes() units.Bytes {
	return headerBytes(p.BTH.Opcode) + units.Bytes(p.Length+uint32(pad(p.Length)))
}

// pad gives how many bytes follow a payload so that a multiple of 4 results.
func pad(n uint32) uint8 { return uint8(-n & 3) }

// What the headers of a packet take.
const (
	bthBytes       = 12
	rethBytes      = 16
	atomicBytes    = 28
	aethBytes      = 4
	atomicAckBytes = 8
	immBytes       = 4
	dethBytes      = 8
)

// headerBytes is the length of the BTH and what follows it in a packet with the
// opcode.
func headerBytes(o roce.Opcode) units.Bytes {
	n := units.Bytes(bthBytes)
	if o.Service() == roce.UD {
		n += dethBytes
	}
	switch o.Operation() {
	case roce.SendLastImm, roce.SendOnlyImm, roce.WriteLastImm, roce.SendLastInv, roce.SendOnlyInv:
		n += immBytes
	case roce.WriteFirst, roce.WriteOnly, roce.ReadRequest:
		n += rethBytes
	case roce.WriteOnlyImm:
		n += rethBytes + immBytes
	case roce.ReadFirst, roce.ReadLast, roce.ReadOnly, roce.Ack:
		n += aethBytes
	case roce.AtomicAck:
		n += aethBytes + atomicAckBytes
	case roce.CompareSwap, roce.FetchAdd:
		n += atomicBytes
	}
	return n
}

// The upper three bits of an AETH's syndrome say what it is, the others more
// about it (§9.7.5.2, table 44).
const (
	syndromeKind = 0xe0
	syndromeACK  = 0x00
	syndromeRNR  = 0x20
	syndromeNAK  = 0x60

	creditsUnlimited = 0x1f

	nakSequence       = syndromeNAK // and code 0
	nakInvalidRequest = syndromeNAK | 1
	nakRemoteAccess   = syndromeNAK | 2
	nakRemoteOp       = syndromeNAK | 3
)

// isResponse tells whether a packet of a reliable connection is for the
// requester.
func isResponse(operation roce.Opcode) bool {
	return operation >= roce.ReadFirst && operation <= roce.AtomicAck
}
