package roce

import (
	"encoding/binary"
)

// XRCETHLen is the length of an XRCETH in bytes.
const XRCETHLen = 4

// XRCETH is the XRC extended transport header, 4 bytes (IBTA volume 1, annex A14). Every request
// of an extended reliable connection has one, before its other headers; responses have none.
type XRCETH struct {
	SRQ uint32 // number of the shared receive queue, 24 bits
}

// Decode reads the header at the beginning of b, or returns ErrShort. It ignores the reserved byte.
func (h *XRCETH) Decode(b []byte) error {
	if len(b) < XRCETHLen {
		return ErrShort
	}
	*h = XRCETH{SRQ: uint24(b[1:])}
	return nil
}

// EncodeTo writes the header into the first XRCETHLen bytes of b.
func (h *XRCETH) EncodeTo(b []byte) { binary.BigEndian.PutUint32(b, h.SRQ&0xffffff) }

func (*XRCETH) extensionBit() Extension { return ExtXRCETH }
