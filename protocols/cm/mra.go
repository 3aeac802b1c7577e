package cm

import "encoding/binary"

// MRAPrivateLen is the length of an MRA's private data in bytes.
const MRAPrivateLen = 222

// Subject is the message that a REJ or an MRA is about (IBTA §12.6.6, §12.6.7).
type Subject uint8

// The messages that a REJ or an MRA can be about.
const (
	SubjectREQ   Subject = 0
	SubjectREP   Subject = 1
	SubjectOther Subject = 2 // of a REJ: no message, such as after a timeout
	SubjectLAP   Subject = 2 // of an MRA
)

// MRA says that a message has arrived and that its answer takes time (IBTA
// §12.6.6).
type MRA struct {
	LocalID        CommID
	RemoteID       CommID
	Subject        Subject // SubjectREQ, SubjectREP or SubjectLAP
	ServiceTimeout Timeout // within which the answer comes
	PrivateData    [MRAPrivateLen]byte
}

// Attribute is AttributeMRA.
func (*MRA) Attribute() Attribute { return AttributeMRA }

// Decode implements Message.
func (m *MRA) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = MRA{
		LocalID:        CommID(binary.BigEndian.Uint32(b)),
		RemoteID:       CommID(binary.BigEndian.Uint32(b[4:])),
		Subject:        Subject(b[8] >> 6),
		ServiceTimeout: Timeout(b[9] >> 3),
		PrivateData:    [MRAPrivateLen]byte(b[10:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *MRA) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	b[8] = byte(m.Subject) << 6
	b[9] = byte(m.ServiceTimeout) << 3
	copy(b[10:], m.PrivateData[:])
}
