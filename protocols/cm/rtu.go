package cm

import "encoding/binary"

// RTUPrivateLen is the length of an RTU's private data in bytes.
const RTUPrivateLen = 224

// RTU says that the connection is in use from now on (IBTA §12.6.9).
type RTU struct {
	LocalID     CommID
	RemoteID    CommID
	PrivateData [RTUPrivateLen]byte
}

// Attribute is AttributeRTU.
func (*RTU) Attribute() Attribute { return AttributeRTU }

// Decode implements Message.
func (m *RTU) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = RTU{
		LocalID:     CommID(binary.BigEndian.Uint32(b)),
		RemoteID:    CommID(binary.BigEndian.Uint32(b[4:])),
		PrivateData: [RTUPrivateLen]byte(b[8:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *RTU) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	copy(b[8:], m.PrivateData[:])
}
