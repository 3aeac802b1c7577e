package roce

import (
	"encoding/binary"
)

// Lengths in bytes of the headers of IRN.
const (
	SendETHLen = 8
	SelETHLen  = 4
)

// improved lists what follows the BTH of each operation of IRN.
var improved = func() map[Opcode]Extension {
	m := map[Opcode]Extension{Nack: ExtAETH | ExtSelETH, ReadAck: ExtSelETH}
	for o := SendFirst; o <= WriteOnlyImm; o++ {
		if o < WriteFirst {
			m[o] = operations[o] | ExtSendETH
		} else {
			m[o] = operations[o] | ExtRETH
		}
	}
	for _, o := range []Opcode{SendLastInv, SendOnlyInv} {
		m[o] = operations[o] | ExtSendETH
	}
	for o := ReadFirst; o <= AtomicAck; o++ { // including Ack
		m[o] = operations[o]
	}
	for _, o := range []Opcode{ReadRequest, CompareSwap, FetchAdd} {
		m[o] = operations[o] | ExtSelETH
	}
	return m
}()

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *SendETH) Decode(b []byte) error {
	if len(b) < SendETHLen {
		return ErrShort
	}
	*h = SendETH{Receive: uint24(b[1:]), Packet: uint24(b[5:])}
	return nil
}

// EncodeTo writes the header into the first SendETHLen bytes of b.
func (h *SendETH) EncodeTo(b []byte) {
	binary.BigEndian.PutUint32(b, h.Receive&PSNMask)
	binary.BigEndian.PutUint32(b[4:], h.Packet&PSNMask)
}

func (*SendETH) extensionBit() Extension { return ExtSendETH }

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *SelETH) Decode(b []byte) error {
	if len(b) < SelETHLen {
		return ErrShort
	}
	*h = SelETH{PSN: uint24(b[1:])}
	return nil
}

// EncodeTo writes the header into the first SelETHLen bytes of b.
func (h *SelETH) EncodeTo(b []byte) { binary.BigEndian.PutUint32(b, h.PSN&PSNMask) }

func (*SelETH) extensionBit() Extension { return ExtSelETH }
