package roce

import "math/bits"

// Extension is a set of what follows a base transport header. The bits are in wire
// order.
type Extension uint16

// Headers and payload that can follow a BTH (IBTA §5.2).
const (
	ExtDETH Extension = 1 << iota
	ExtXRCETH
	ExtRETH
	ExtAtomicETH
	ExtAETH
	ExtAtomicAckETH
	ExtImmDt
	ExtIETH
	ExtCNP     // the reserved bytes of a CNP
	ExtSendETH // of IRN
	ExtSelETH  // of IRN
	ExtPayload // a payload, which may be empty, and its pad
)

var extensionLen = [...]uint8{8, 4, 16, 28, 4, 8, 4, 4, 16, 8, 4, 0}

// operations lists what follows the BTH of each operation (IBTA §9.2.1). table says
// which services have an operation.
var operations = [32]Extension{
	SendFirst:    ExtPayload,
	SendMiddle:   ExtPayload,
	SendLast:     ExtPayload,
	SendLastImm:  ExtImmDt | ExtPayload,
	SendOnly:     ExtPayload,
	SendOnlyImm:  ExtImmDt | ExtPayload,
	WriteFirst:   ExtRETH | ExtPayload,
	WriteMiddle:  ExtPayload,
	WriteLast:    ExtPayload,
	WriteLastImm: ExtImmDt | ExtPayload,
	WriteOnly:    ExtRETH | ExtPayload,
	WriteOnlyImm: ExtRETH | ExtImmDt | ExtPayload,
	ReadRequest:  ExtRETH,
	ReadFirst:    ExtAETH | ExtPayload,
	ReadMiddle:   ExtPayload,
	ReadLast:     ExtAETH | ExtPayload,
	ReadOnly:     ExtAETH | ExtPayload,
	Ack:          ExtAETH,
	AtomicAck:    ExtAETH | ExtAtomicAckETH,
	CompareSwap:  ExtAtomicETH,
	FetchAdd:     ExtAtomicETH,
	SendLastInv:  ExtIETH | ExtPayload,
	SendOnlyInv:  ExtIETH | ExtPayload,
}

type format struct {
	extensions Extension
	length     uint8 // of the headers after the BTH, in bytes
}

var table = func() (t [256]format) {
	set := func(o Opcode, e Extension) { t[o] = format{extensions: e, length: uint8(e.Len())} }
	for i, e := range operations {
		operation := Opcode(i)
		set(RC.WithOperation(operation), e)
		switch {
		case operation >= ReadFirst && operation <= AtomicAck:
			set(XRC.WithOperation(operation), e)
		case e != 0:
			set(XRC.WithOperation(operation), ExtXRCETH|e)
		}
		if operation <= WriteOnlyImm {
			set(UC.WithOperation(operation), e)
		}
		if operation == SendOnly || operation == SendOnlyImm {
			set(UD.WithOperation(operation), ExtDETH|e)
		}
	}
	for operation, e := range improved {
		set(IRN.WithOperation(operation), e)
	}
	set(NotifyCongestion, ExtCNP)
	return t
}()

// Extensions returns what follows the BTH of an opcode: see IBTA §9.2.1 for RC, UC and
// UD, annex A14 for XRC, A17.9.3 for the CNP, SelETH for IRN. It is empty for any other
// opcode. The service RD and the operations FLUSH, ATOMIC WRITE and RESYNC are not
// implemented.
func (o Opcode) Extensions() Extension { return table[o].extensions }

// IsValid reports whether the opcode is an operation of its service.
func (o Opcode) IsValid() bool { return table[o].extensions != 0 }

// HeaderLen returns the length of the BTH and of the headers after it, in bytes.
func (o Opcode) HeaderLen() int { return BTHLen + int(table[o].length) }

// PacketLen returns the length of a packet with a payload of n bytes, from the BTH to
// the ICRC. That is the UDP payload.
func (o Opcode) PacketLen(n int) int { return o.HeaderLen() + n + int(PadOf(n)) + ICRCLen }

// Has reports whether any of x is in e.
func (e Extension) Has(x Extension) bool { return e&x != 0 }

// Len returns the length of the headers in e, in bytes. A payload counts as 0.
func (e Extension) Len() (n int) {
	for ; e != 0; e &= e - 1 {
		n += int(extensionLen[bits.TrailingZeros16(uint16(e))])
	}
	return n
}
