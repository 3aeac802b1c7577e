package cm

import "encoding/binary"

// REQPrivateLen is the length of a REQ's private data in bytes.
const REQPrivateLen = 92

// Transport is the transport service of a connection (IBTA §12.7).
type Transport uint8

// The transports. TransportExtended means the transport in the field ExtendedTransport, such as
// XRC; only RC and UC are used over RoCE here.
const (
	TransportRC Transport = iota
	TransportUC
	TransportRD
	TransportExtended
)

// ExtendedIRN is the ExtendedTransport of a reliable connection with IRN (roce.SelETH). The
// specification has no number for it. It does not use this one, so a peer without IRN refuses
// the REQ.
const ExtendedIRN = 7

// REQ asks for a connection (IBTA §12.6.5).
type REQ struct {
	LocalID            CommID
	Service            ServiceID
	CAGUID             uint64  // of the sender's channel adapter
	QKey               uint32  // of RD only
	QPN                uint32  // the sender's, 24 bits
	ResponderResources uint8   // concurrent READs and atomics that the sender accepts
	LocalEECN          uint32  // of RD only, 24 bits
	InitiatorDepth     uint8   // concurrent READs and atomics that the sender would send
	RemoteEECN         uint32  // of RD only, 24 bits
	RemoteTimeout      Timeout // within which the other side must answer
	Transport          Transport
	FlowControl        bool    // the sender respects end-to-end credits
	StartPSN           uint32  // of the first packet that the other side sends, 24 bits
	LocalTimeout       Timeout // within which the sender answers
	RetryCount         uint8   // 3 bits
	PKey               uint16
	PathMTU            MTU
	RDCExists          bool
	RNRRetryCount      uint8 // 3 bits; 7 is RNRForever
	MaxCMRetries       uint8 // 4 bits
	SRQ                bool  // the sender's queue pair has a shared receive queue
	ExtendedTransport  uint8 // 3 bits
	Primary            Path
	Alternate          Path // all zero if there is none
	PrivateData        [REQPrivateLen]byte
}

// Attribute is AttributeREQ.
func (*REQ) Attribute() Attribute { return AttributeREQ }

// Decode implements Message.
func (m *REQ) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = REQ{
		LocalID:            CommID(binary.BigEndian.Uint32(b)),
		Service:            ServiceID(binary.BigEndian.Uint64(b[8:])),
		CAGUID:             binary.BigEndian.Uint64(b[16:]),
		QKey:               binary.BigEndian.Uint32(b[28:]),
		QPN:                uint24(b[32:]),
		ResponderResources: b[35],
		LocalEECN:          uint24(b[36:]),
		InitiatorDepth:     b[39],
		RemoteEECN:         uint24(b[40:]),
		RemoteTimeout:      Timeout(b[43] >> 3),
		Transport:          Transport(b[43] >> 1 & 3),
		FlowControl:        b[43]&1 != 0,
		StartPSN:           uint24(b[44:]),
		LocalTimeout:       Timeout(b[47] >> 3),
		RetryCount:         b[47] & 7,
		PKey:               binary.BigEndian.Uint16(b[48:]),
		PathMTU:            MTU(b[50] >> 4),
		RDCExists:          b[50]&0x08 != 0,
		RNRRetryCount:      b[50] & 7,
		MaxCMRetries:       b[51] >> 4,
		SRQ:                b[51]&0x08 != 0,
		ExtendedTransport:  b[51] & 7,
		PrivateData:        [REQPrivateLen]byte(b[140:]),
	}
	m.Primary.decodePath(b[52:])
	m.Alternate.decodePath(b[96:])
	return nil
}

// EncodeTo implements Message.
func (m *REQ) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint64(b[8:], uint64(m.Service))
	binary.BigEndian.PutUint64(b[16:], m.CAGUID)
	binary.BigEndian.PutUint32(b[28:], m.QKey)
	putUint24(b[32:], m.QPN)
	b[35] = m.ResponderResources
	putUint24(b[36:], m.LocalEECN)
	b[39] = m.InitiatorDepth
	putUint24(b[40:], m.RemoteEECN)
	b[43] = byte(m.RemoteTimeout)<<3 | byte(m.Transport)&3<<1 | bitIf(m.FlowControl, 1)
	putUint24(b[44:], m.StartPSN)
	b[47] = byte(m.LocalTimeout)<<3 | m.RetryCount&7
	binary.BigEndian.PutUint16(b[48:], m.PKey)
	b[50] = byte(m.PathMTU)<<4 | bitIf(m.RDCExists, 0x08) | m.RNRRetryCount&7
	b[51] = m.MaxCMRetries<<4 | bitIf(m.SRQ, 0x08) | m.ExtendedTransport&7
	m.Primary.putPath(b[52:])
	m.Alternate.putPath(b[96:])
	copy(b[140:], m.PrivateData[:])
}
