package roce

import "encoding/binary"

// Lengths of the headers of atomic operations in bytes.
const (
	AtomicETHLen    = 28
	AtomicAckETHLen = 8
)

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *AtomicETH) Decode(b []byte) error {
	if len(b) < AtomicETHLen {
		return ErrShort
	}
	*h = AtomicETH{
		VA:      binary.BigEndian.Uint64(b),
		RKey:    binary.BigEndian.Uint32(b[8:]),
		Swap:    binary.BigEndian.Uint64(b[12:]),
		Compare: binary.BigEndian.Uint64(b[20:]),
	}
	return nil
}

// EncodeTo writes the header into the first AtomicETHLen bytes of b.
func (h *AtomicETH) EncodeTo(b []byte) {
	_ = b[AtomicETHLen-1]
	binary.BigEndian.PutUint64(b, h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.Swap)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}

func (*AtomicETH) extensionBit() Extension { return ExtAtomicETH }

// AtomicAckETH is the atomic acknowledge extended transport header, 8 bytes
// (IBTA §5.2). It follows an AETH.
type AtomicAckETH struct {
	Original uint64 // what was in memory before the operation
}

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *AtomicAckETH) Decode(b []byte) error {
	if len(b) < AtomicAckETHLen {
		return ErrShort
	}
	h.Original = binary.BigEndian.Uint64(b)
	return nil
}

// EncodeTo writes the header into the first AtomicAckETHLen bytes of b.
func (h *AtomicAckETH) EncodeTo(b []byte) { binary.BigEndian.PutUint64(b, h.Original) }

func (*AtomicAckETH) extensionBit() Extension { return ExtAtomicAckETH }
