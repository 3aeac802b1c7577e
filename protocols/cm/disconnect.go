package cm

import "encoding/binary"

// Lengths of the private data of a DREQ and a DREP in bytes.
const (
	DREQPrivateLen = 220
	DREPPrivateLen = 224
)

// DREQ asks to end a connection (IBTA §12.6.10).
type DREQ struct {
	LocalID     CommID
	RemoteID    CommID
	RemoteQPN   uint32 // or EECN of RD; 24 bits
	PrivateData [DREQPrivateLen]byte
}

// Attribute is AttributeDREQ.
func (*DREQ) Attribute() Attribute { return AttributeDREQ }

// Decode implements Message.
func (m *DREQ) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = DREQ{
		LocalID:     CommID(binary.BigEndian.Uint32(b)),
		RemoteID:    CommID(binary.BigEndian.Uint32(b[4:])),
		RemoteQPN:   uint24(b[8:]),
		PrivateData: [DREQPrivateLen]byte(b[12:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *DREQ) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	putUint24(b[8:], m.RemoteQPN)
	copy(b[12:], m.PrivateData[:])
}

// DREP answers a DREQ (IBTA §12.6.11).
type DREP struct {
	LocalID     CommID
	RemoteID    CommID
	PrivateData [DREPPrivateLen]byte
}

// Attribute is AttributeDREP.
func (*DREP) Attribute() Attribute { return AttributeDREP }

// Decode implements Message.
func (m *DREP) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = DREP{
		LocalID:     CommID(binary.BigEndian.Uint32(b)),
		RemoteID:    CommID(binary.BigEndian.Uint32(b[4:])),
		PrivateData: [DREPPrivateLen]byte(b[8:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *DREP) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	copy(b[8:], m.PrivateData[:])
}
