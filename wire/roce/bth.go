package roce

import "encoding/binary"

// BTHLen is the length of a base transport header in bytes.
const BTHLen = 12

// DefaultPKey is the partition key of full members of the default partition
// (IBTA §10.9). RoCEv2 has no other in practice.
const DefaultPKey = 0xffff

// Decode reads the header at the beginning of b. It returns ErrShort if b is too
// short and ErrVersion if the version is not 0. It does not check the opcode and
// ignores reserved bits.
func (h *BTH) Decode(b []byte) error {
	if len(b) < BTHLen {
		return ErrShort
	}
	*h = BTH{
		Opcode:    Opcode(b[0]),
		Solicited: b[1]&0x80 != 0,
		MigReq:    b[1]&0x40 != 0,
		Pad:       b[1] >> 4 & 3,
		PKey:      binary.BigEndian.Uint16(b[2:]),
		FECN:      b[4]&0x80 != 0,
		BECN:      b[4]&0x40 != 0,
		DestQP:    uint24(b[5:]),
		AckReq:    b[8]&0x80 != 0,
		PSN:       uint24(b[9:]),
	}
	if b[1]&0x0f != 0 {
		return ErrVersion
	}
	return nil
}

// EncodeTo writes the header into the first BTHLen bytes of b, with reserved bits 0. It
// truncates Pad, DestQP and PSN to their width on the wire.
func (h *BTH) EncodeTo(b []byte) {
	_ = b[BTHLen-1]
	b[0] = byte(h.Opcode)
	b[1] = bitIf(h.Solicited, 0x80) | bitIf(h.MigReq, 0x40) | h.Pad&3<<4
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	binary.BigEndian.PutUint32(b[4:], h.DestQP&0xffffff)
	b[4] = bitIf(h.FECN, 0x80) | bitIf(h.BECN, 0x40)
	binary.BigEndian.PutUint32(b[8:], h.PSN&PSNMask)
	b[8] = bitIf(h.AckReq, 0x80)
}

// PadOf returns the pad count of a payload of n bytes (IBTA §9.2).
func PadOf(n int) uint8 { return uint8(-n & 3) }

func uint24(b []byte) uint32 {
	_ = b[2]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

func bitIf(set bool, mask byte) byte {
	if set {
		return mask
	}
	return 0
}
