package gso

import (
	"encoding/binary"
	"math/bits"

	"github.com/weftlab/weft/wire"
)

// addWords adds the 16-bit words of b to s in one's complement (RFC 1071). It adds eight
// bytes at a time in memory order, which §2(B) allows: the result of fold is
// byte-swapped relative to the wire and is written little-endian. An odd last byte
// is padded with a zero.
func addWords(b []byte, s uint64) uint64 {
	var c uint64
	for len(b) >= 32 {
		s, c = bits.Add64(s, binary.LittleEndian.Uint64(b), 0)
		s, c = bits.Add64(s, binary.LittleEndian.Uint64(b[8:]), c)
		s, c = bits.Add64(s, binary.LittleEndian.Uint64(b[16:]), c)
		s, c = bits.Add64(s, binary.LittleEndian.Uint64(b[24:]), c)
		s += c // no carry: a sum that has just wrapped is below 2^64-1
		b = b[32:]
	}
	for len(b) >= 8 {
		s, c = bits.Add64(s, binary.LittleEndian.Uint64(b), 0)
		s += c
		b = b[8:]
	}
	var rest uint64
	for i, x := range b {
		rest |= uint64(x) << (8 * i)
	}
	s, c = bits.Add64(s, rest, 0)
	return s + c
}

// foldSum reduces a sum to 16 bits.
func foldSum(s uint64) uint16 {
	s = s&0xffffffff + s>>32
	s = s&0xffffffff + s>>32
	s = s&0xffff + s>>16
	s = s&0xffff + s>>16
	return uint16(s)
}

// toWord returns v in memory order, for addWords.
func toWord(v uint16) uint64 { return uint64(bits.ReverseBytes16(v)) }

// csumField returns the offset of the checksum in a transport header of the
// protocol, 0 when it is neither TCP nor UDP.
func csumField(proto uint8) int {
	switch proto {
	case wire.ProtoTCP:
		return 16
	case wire.ProtoUDP:
		return 6
	}
	return 0
}

// completeChecksum replaces the sum of a pseudo-header, field bytes after start, with the
// checksum of everything from start on. UDP sends 0xffff for 0, which means no
// checksum (RFC 768).
func completeChecksum(b []byte, start, field int) { completeWith(b, nil, start, field) }

// completeWith is completeChecksum for a packet whose bytes after b are data. From start on, b has
// an even length if there is data, as the headers of TCP and UDP do.
func completeWith(b, data []byte, start, field int) {
	b = b[start:]
	c := ^foldSum(addWords(data, addWords(b, 0)))
	if c == 0 && field == 6 {
		c = 0xffff
	}
	binary.LittleEndian.PutUint16(b[field:], c)
}
