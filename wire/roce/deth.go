package roce

import "encoding/binary"

// DETHLen is the length of a DETH in bytes.
const DETHLen = 8

// ManagementQP is the queue pair of general services, which include connection
// management; ManagementQKey is its Q_Key (IBTA chapter 13).
const (
	ManagementQP   = 1
	ManagementQKey = 0x80010000
)

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *DETH) Decode(b []byte) error {
	if len(b) < DETHLen {
		return ErrShort
	}
	*h = DETH{QKey: binary.BigEndian.Uint32(b), SourceQP: uint24(b[5:])}
	return nil
}

// EncodeTo writes the header into the first DETHLen bytes of b.
func (h *DETH) EncodeTo(b []byte) {
	_ = b[DETHLen-1]
	binary.BigEndian.PutUint32(b, h.QKey)
	binary.BigEndian.PutUint32(b[4:], h.SourceQP&0xffffff)
}

func (*DETH) extensionBit() Extension { return ExtDETH }
