package roce

import "encoding/binary"

// Lengths in bytes of headers between the other headers and the payload.
const (
	ImmDtLen = 4
	IETHLen  = 4
)

// ImmDt is immediate data, 4 bytes (IBTA §5.2).
type ImmDt struct {
	Data uint32 // big-endian on the wire
}

// Decode reads immediate data at the beginning of b, or returns ErrShort.
func (h *ImmDt) Decode(b []byte) error {
	if len(b) < ImmDtLen {
		return ErrShort
	}
	h.Data = binary.BigEndian.Uint32(b)
	return nil
}

// EncodeTo writes the data into the first ImmDtLen bytes of b.
func (h *ImmDt) EncodeTo(b []byte) { binary.BigEndian.PutUint32(b, h.Data) }

func (*ImmDt) extensionBit() Extension { return ExtImmDt }

// IETH is the invalidate extended transport header, 4 bytes (IBTA §5.2).
type IETH struct {
	RKey uint32 // of the memory that the receiver invalidates
}

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *IETH) Decode(b []byte) error {
	if len(b) < IETHLen {
		return ErrShort
	}
	h.RKey = binary.BigEndian.Uint32(b)
	return nil
}

// EncodeTo writes the header into the first IETHLen bytes of b.
func (h *IETH) EncodeTo(b []byte) { binary.BigEndian.PutUint32(b, h.RKey) }

func (*IETH) extensionBit() Extension { return ExtIETH }
