package cm

import (
	"encoding/binary"
	"fmt"
)

// Lengths of fields in SIDRREQ and SIDRREP, in bytes.
const (
	SIDRREQPrivateLen = 216
	SIDRREPInfoLen    = 72
	SIDRREPPrivateLen = 136
)

// SIDRREQ asks which queue pair receives datagrams for a service (IBTA
// §12.11.1).
type SIDRREQ struct {
	RequestID   uint32
	PKey        uint16
	Service     ServiceID
	PrivateData [SIDRREQPrivateLen]byte
}

// Attribute is AttributeSIDRREQ.
func (*SIDRREQ) Attribute() Attribute { return AttributeSIDRREQ }

// Decode implements Message.
func (m *SIDRREQ) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = SIDRREQ{
		RequestID:   binary.BigEndian.Uint32(b),
		PKey:        binary.BigEndian.Uint16(b[4:]),
		Service:     ServiceID(binary.BigEndian.Uint64(b[8:])),
		PrivateData: [SIDRREQPrivateLen]byte(b[16:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *SIDRREQ) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, m.RequestID)
	binary.BigEndian.PutUint16(b[4:], m.PKey)
	binary.BigEndian.PutUint64(b[8:], uint64(m.Service))
	copy(b[16:], m.PrivateData[:])
}

// SIDRStatus is the answer to a SIDRREQ (IBTA §12.11.2).
type SIDRStatus uint8

// The answers.
const (
	SIDRValid              SIDRStatus = 0 // QPN and Q_Key are valid
	SIDRUnsupported        SIDRStatus = 1 // no listener
	SIDRRejected           SIDRStatus = 2
	SIDRNoQP               SIDRStatus = 3
	SIDRRedirect           SIDRStatus = 4
	SIDRUnsupportedVersion SIDRStatus = 5
)

var sidrStatuses = [...]string{"valid QPN", "service ID not supported", "rejected by the service provider", "no QP available", "redirected", "class version not supported"}

// String returns the status in words.
func (s SIDRStatus) String() string {
	if int(s) < len(sidrStatuses) {
		return sidrStatuses[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// SIDRREP answers a SIDRREQ (IBTA §12.11.2).
type SIDRREP struct {
	RequestID   uint32
	Status      SIDRStatus
	InfoLen     uint8  // bytes of Info that count; up to SIDRREPInfoLen
	QPN         uint32 // 24 bits
	Service     ServiceID
	QKey        uint32
	Info        [SIDRREPInfoLen]byte
	PrivateData [SIDRREPPrivateLen]byte
}

// Attribute is AttributeSIDRREP.
func (*SIDRREP) Attribute() Attribute { return AttributeSIDRREP }

// Decode implements Message. An InfoLen beyond SIDRREPInfoLen is left as it
// came.
func (m *SIDRREP) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = SIDRREP{
		RequestID:   binary.BigEndian.Uint32(b),
		Status:      SIDRStatus(b[4]),
		InfoLen:     b[5],
		QPN:         uint24(b[8:]),
		Service:     ServiceID(binary.BigEndian.Uint64(b[12:])),
		QKey:        binary.BigEndian.Uint32(b[20:]),
		Info:        [SIDRREPInfoLen]byte(b[24:]),
		PrivateData: [SIDRREPPrivateLen]byte(b[96:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *SIDRREP) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, m.RequestID)
	b[4], b[5] = byte(m.Status), m.InfoLen
	putUint24(b[8:], m.QPN)
	binary.BigEndian.PutUint64(b[12:], uint64(m.Service))
	binary.BigEndian.PutUint32(b[20:], m.QKey)
	copy(b[24:], m.Info[:])
	copy(b[96:], m.PrivateData[:])
}
