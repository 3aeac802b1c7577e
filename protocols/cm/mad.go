// Package cm holds the wire formats of InfiniBand's connection management:
// management datagrams (IBTA specification volume 1, chapter 13), the messages
// of its communication management class (chapter 12), one small file each, and
// the header that the RDMA IP CM service puts into their private data (annex
// A11). The protocol that uses them is elsewhere.
//
// All Decode and Put functions work in place, without allocation. Reserved
// fields are sent as 0 and ignored when received. GIDs are 16 bytes; the
// contents of GIDs and other opaque fields are not checked.
package cm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of a management datagram in bytes (IBTA §13.4.2).
const (
	MADLen    = 256 // always, when sent
	HeaderLen = 24
	DataLen   = MADLen - HeaderLen // a message of communication management
)

// Values of the common header for communication management (IBTA §16.7).
const (
	BaseVersion  = 1
	Class        = 0x07
	ClassVersion = 2
	MethodSend   = 0x03
)

// What can be wrong with a datagram. Errors of this package wrap one of these.
var (
	ErrShort       = errors.New("cm: shorter than a management datagram of 256 bytes")
	ErrVersion     = errors.New("cm: the base version of the management datagram is not 1")
	ErrClass       = errors.New("cm: not a Send of the communication management class, version 2")
	ErrAttribute   = errors.New("cm: not a message of communication management")
	ErrPrivateData = errors.New("cm: the private data does not begin with an IP CM header of version 0.0 for IPv4 or IPv6")
)

// Attribute says which message a datagram carries (IBTA §16.7).
type Attribute uint16

// The messages. ClassPortInfo (0x0001), which is read by another method, is not
// implemented.
const (
	AttributeREQ     Attribute = 0x10 // connection request
	AttributeMRA     Attribute = 0x11 // message receipt acknowledgement
	AttributeREJ     Attribute = 0x12 // reject
	AttributeREP     Attribute = 0x13 // reply to a request
	AttributeRTU     Attribute = 0x14 // ready to use
	AttributeDREQ    Attribute = 0x15 // disconnection request
	AttributeDREP    Attribute = 0x16 // reply to it
	AttributeSIDRREQ Attribute = 0x17 // service ID resolution request
	AttributeSIDRREP Attribute = 0x18 // service ID resolution response
	AttributeLAP     Attribute = 0x19 // load alternate path
	AttributeAPR     Attribute = 0x1a // alternate path response
)

var attributeNames = map[Attribute]string{
	AttributeREQ: "REQ", AttributeMRA: "MRA", AttributeREJ: "REJ", AttributeREP: "REP", AttributeRTU: "RTU", AttributeDREQ: "DREQ",
	AttributeDREP: "DREP", AttributeSIDRREQ: "SIDR_REQ", AttributeSIDRREP: "SIDR_REP", AttributeLAP: "LAP", AttributeAPR: "APR",
}

// String returns the name of the message.
func (a Attribute) String() string {
	if s, ok := attributeNames[a]; ok {
		return s
	}
	return fmt.Sprintf("attribute %#04x", uint16(a))
}

// Header is the common header of management datagrams, 24 bytes (IBTA
// §13.4.3). Its base version is 1.
type Header struct {
	Class         uint8
	ClassVersion  uint8
	Method        uint8
	Status        uint16
	ClassSpecific uint16
	Transaction   uint64 // the same in all messages of one exchange
	Attribute     Attribute
	Modifier      uint32
}

// NewHeader returns the header of a message of communication management.
func NewHeader(transaction uint64, a Attribute) Header {
	return Header{Class: Class, ClassVersion: ClassVersion, Method: MethodSend, Transaction: transaction, Attribute: a}
}

// Decode reads the header at the beginning of b. It returns ErrShort if b does
// not hold a header, and ErrVersion, with the fields set, if the base version
// is wrong.
func (h *Header) Decode(b []byte) error {
	if len(b) < HeaderLen {
		return ErrShort
	}
	*h = Header{
		Class:         b[1],
		ClassVersion:  b[2],
		Method:        b[3],
		Status:        binary.BigEndian.Uint16(b[4:]),
		ClassSpecific: binary.BigEndian.Uint16(b[6:]),
		Transaction:   binary.BigEndian.Uint64(b[8:]),
		Attribute:     Attribute(binary.BigEndian.Uint16(b[16:])),
		Modifier:      binary.BigEndian.Uint32(b[20:]),
	}
	if b[0] != BaseVersion {
		return ErrVersion
	}
	return nil
}

// EncodeTo writes the header into the first HeaderLen bytes of b.
func (h *Header) EncodeTo(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1], b[2], b[3] = BaseVersion, h.Class, h.ClassVersion, h.Method
	binary.BigEndian.PutUint16(b[4:], h.Status)
	binary.BigEndian.PutUint16(b[6:], h.ClassSpecific)
	binary.BigEndian.PutUint64(b[8:], h.Transaction)
	binary.BigEndian.PutUint16(b[16:], uint16(h.Attribute))
	binary.BigEndian.PutUint16(b[18:], 0)
	binary.BigEndian.PutUint32(b[20:], h.Modifier)
}

// Check returns ErrClass unless the header belongs to a message of
// communication management. It ignores the status, which these messages do not
// use.
func (h *Header) Check() error {
	if h.Class != Class || h.ClassVersion != ClassVersion || h.Method != MethodSend {
		return ErrClass
	}
	return nil
}
