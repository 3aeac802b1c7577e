package cm

import "encoding/binary"

// Lengths of fields in a REJ, in bytes.
const (
	REJInfoLen    = 72
	REJPrivateLen = 148
)

// REJ refuses a message, or a connection (IBTA §12.6.7).
type REJ struct {
	LocalID     CommID // 0 if the sender has assigned none
	RemoteID    CommID // 0 if the sender knows none
	Subject     Subject
	InfoLen     uint8 // bytes of Info that count, 7 bits; up to REJInfoLen
	Reason      Reason
	Info        [REJInfoLen]byte // additional reject information: what would be right
	PrivateData [REJPrivateLen]byte
}

// Attribute is AttributeREJ.
func (*REJ) Attribute() Attribute { return AttributeREJ }

// Decode implements Message. An InfoLen beyond REJInfoLen is left as it came.
func (m *REJ) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = REJ{
		LocalID:     CommID(binary.BigEndian.Uint32(b)),
		RemoteID:    CommID(binary.BigEndian.Uint32(b[4:])),
		Subject:     Subject(b[8] >> 6),
		InfoLen:     b[9] >> 1,
		Reason:      Reason(binary.BigEndian.Uint16(b[10:])),
		Info:        [REJInfoLen]byte(b[12:]),
		PrivateData: [REJPrivateLen]byte(b[84:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *REJ) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	b[8] = byte(m.Subject) << 6
	b[9] = m.InfoLen << 1
	binary.BigEndian.PutUint16(b[10:], uint16(m.Reason))
	copy(b[12:], m.Info[:])
	copy(b[84:], m.PrivateData[:])
}
