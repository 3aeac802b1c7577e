package cm

import "fmt"

// Message is what a datagram of communication management carries: a *REQ,
// *MRA, *REJ, *REP, *RTU, *DREQ, *DREP, *SIDRREQ, *SIDRREP, *LAP or *APR.
type Message interface {
	// Attribute says which message it is.
	Attribute() Attribute
	// Decode reads the DataLen bytes after the datagram's header. It returns
	// ErrShort if b is shorter.
	Decode(b []byte) error
	// EncodeTo writes DataLen bytes.
	EncodeTo(b []byte)
}

// NewMessage returns an empty message, or nil if no message has that attribute.
func NewMessage(a Attribute) Message {
	switch a {
	case AttributeREQ:
		return new(REQ)
	case AttributeMRA:
		return new(MRA)
	case AttributeREJ:
		return new(REJ)
	case AttributeREP:
		return new(REP)
	case AttributeRTU:
		return new(RTU)
	case AttributeDREQ:
		return new(DREQ)
	case AttributeDREP:
		return new(DREP)
	case AttributeSIDRREQ:
		return new(SIDRREQ)
	case AttributeSIDRREP:
		return new(SIDRREP)
	case AttributeLAP:
		return new(LAP)
	case AttributeAPR:
		return new(APR)
	}
	return nil
}

// Parse reads a datagram of MADLen bytes. Errors wrap ErrShort, ErrVersion,
// ErrClass or ErrAttribute; the header is valid with the last two.
func Parse(mad []byte) (h Header, m Message, err error) {
	if len(mad) < MADLen {
		return h, nil, fmt.Errorf("%w: it has %d", ErrShort, len(mad))
	}
	if err := h.Decode(mad); err != nil {
		return h, nil, err
	}
	if err := h.Check(); err != nil {
		return h, nil, fmt.Errorf("%w: class %#02x, version %d, method %#02x", err, h.Class, h.ClassVersion, h.Method)
	}
	if m = NewMessage(h.Attribute); m == nil {
		return h, nil, fmt.Errorf("%w: %v", ErrAttribute, h.Attribute)
	}
	return h, m, m.Decode(mad[HeaderLen:])
}

// PutMAD writes the datagram that carries m, MADLen bytes.
func PutMAD(b []byte, transaction uint64, m Message) {
	_ = b[MADLen-1]
	h := NewHeader(transaction, m.Attribute())
	h.EncodeTo(b)
	m.EncodeTo(b[HeaderLen:])
}

// CommID is the number that one side gives to a connection, unique on its
// machine.
type CommID uint32

// messageBytes returns the message's part of b, or ErrShort.
func messageBytes(b []byte) ([]byte, error) {
	if len(b) < DataLen {
		return nil, ErrShort
	}
	return b[:DataLen], nil
}

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func putUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

func bitIf(set bool, mask byte) byte {
	if set {
		return mask
	}
	return 0
}
