package cm

import (
	"encoding/binary"
	"fmt"
)

// Lengths of fields in LAP and APR, in bytes.
const (
	LAPPrivateLen = 168
	APRInfoLen    = 72
	APRPrivateLen = 148
)

// LAP asks to load another path for a connection (IBTA §12.8.1). Path migration
// is not implemented: LAP is read so that it can be refused by an APR with
// APUnsupported.
type LAP struct {
	LocalID       CommID
	RemoteID      CommID
	RemoteQPN     uint32  // or EECN of RD; 24 bits
	RemoteTimeout Timeout // within which the other side must answer
	Alternate     Path
	PrivateData   [LAPPrivateLen]byte
}

// Attribute is AttributeLAP.
func (*LAP) Attribute() Attribute { return AttributeLAP }

// Decode implements Message.
func (m *LAP) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = LAP{
		LocalID:       CommID(binary.BigEndian.Uint32(b)),
		RemoteID:      CommID(binary.BigEndian.Uint32(b[4:])),
		RemoteQPN:     uint24(b[12:]),
		RemoteTimeout: Timeout(b[15] >> 3),
		// A path as in a REQ, but with some fields in other places.
		Alternate: Path{
			LocalLID:     binary.BigEndian.Uint16(b[20:]),
			RemoteLID:    binary.BigEndian.Uint16(b[22:]),
			LocalGID:     GID(b[24:40]),
			RemoteGID:    GID(b[40:56]),
			FlowLabel:    uint24(b[56:]) >> 4,
			TrafficClass: b[59],
			HopLimit:     b[60],
			Rate:         b[61] & 0x3f,
			SL:           b[62] >> 4,
			SubnetLocal:  b[62]&0x08 != 0,
			ACKTimeout:   Timeout(b[63] >> 3),
		},
		PrivateData: [LAPPrivateLen]byte(b[64:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *LAP) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	putUint24(b[12:], m.RemoteQPN)
	b[15] = byte(m.RemoteTimeout) << 3
	p := &m.Alternate
	binary.BigEndian.PutUint16(b[20:], p.LocalLID)
	binary.BigEndian.PutUint16(b[22:], p.RemoteLID)
	copy(b[24:], p.LocalGID[:])
	copy(b[40:], p.RemoteGID[:])
	putUint24(b[56:], p.FlowLabel<<4)
	b[59], b[60], b[61] = p.TrafficClass, p.HopLimit, p.Rate&0x3f
	b[62] = p.SL<<4 | bitIf(p.SubnetLocal, 0x08)
	b[63] = byte(p.ACKTimeout) << 3
	copy(b[64:], m.PrivateData[:])
}

// APStatus is the answer to a LAP (IBTA §12.8.2).
type APStatus uint8

// The answers.
const (
	APLoaded            APStatus = 0
	APInvalidCommID     APStatus = 1
	APUnsupported       APStatus = 2
	APRejected          APStatus = 3
	APRedirect          APStatus = 4
	APCurrent           APStatus = 5 // the path proposed is the current one
	APInvalidQPN        APStatus = 6 // or EECN
	APInvalidLID        APStatus = 7
	APInvalidGID        APStatus = 8
	APInvalidFlowLabel  APStatus = 9
	APInvalidTraffic    APStatus = 10 // traffic class
	APInvalidHopLimit   APStatus = 11
	APInvalidPacketRate APStatus = 12
	APInvalidSL         APStatus = 13
)

var apStatuses = [...]string{
	"alternate path loaded", "invalid communication ID", "alternate paths not supported", "failover port rejected",
	"redirected", "the proposed path is the current one", "QPN or EECN does not fit the communication ID", "LID rejected",
	"GID rejected", "flow label rejected", "traffic class rejected", "hop limit rejected", "packet rate rejected", "SL rejected",
}

// String returns the status in words.
func (s APStatus) String() string {
	if int(s) < len(apStatuses) {
		return apStatuses[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// APR answers a LAP (IBTA §12.8.2).
type APR struct {
	LocalID     CommID
	RemoteID    CommID
	InfoLen     uint8 // bytes of Info that count; up to APRInfoLen
	Status      APStatus
	Info        [APRInfoLen]byte
	PrivateData [APRPrivateLen]byte
}

// Attribute is AttributeAPR.
func (*APR) Attribute() Attribute { return AttributeAPR }

// Decode implements Message. An InfoLen beyond APRInfoLen is left as it came.
func (m *APR) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = APR{
		LocalID:     CommID(binary.BigEndian.Uint32(b)),
		RemoteID:    CommID(binary.BigEndian.Uint32(b[4:])),
		InfoLen:     b[8],
		Status:      APStatus(b[9]),
		Info:        [APRInfoLen]byte(b[12:]),
		PrivateData: [APRPrivateLen]byte(b[84:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *APR) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	b[8], b[9] = m.InfoLen, byte(m.Status)
	copy(b[12:], m.Info[:])
	copy(b[84:], m.PrivateData[:])
}
