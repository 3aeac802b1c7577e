package roce

import "encoding/binary"

// RETHLen is the length of a RETH in bytes.
const RETHLen = 16

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *RETH) Decode(b []byte) error {
	if len(b) < RETHLen {
		return ErrShort
	}
	*h = RETH{VA: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:]), Length: binary.BigEndian.Uint32(b[12:])}
	return nil
}

// EncodeTo writes the header into the first RETHLen bytes of b.
func (h *RETH) EncodeTo(b []byte) {
	_ = b[RETHLen-1]
	binary.BigEndian.PutUint64(b, h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.Length)
}

func (*RETH) extensionBit() Extension { return ExtRETH }
