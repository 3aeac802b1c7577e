package roce

import (
	"encoding/binary"

	"github.com/weftlab/weft/sim/units"
)

// AETHLen is the length of an AETH in bytes.
const AETHLen = 4

// Syndromes of an AETH (IBTA §9.7.5). The three high bits give the kind of
// acknowledgement, the others are an operand.
const (
	SyndromeKind    = 0xe0 // mask of the kind
	SyndromeOperand = 0x1f // mask of the operand

	SyndromeAck       = 0x00 // with encoded credits
	SyndromeUnlimited = 0x1f // ACK without credits: no end-to-end flow control
	SyndromeRNR       = 0x20 // with a timer: see RNRTime

	SyndromeSequence         = 0x60 // NAK: PSN sequence error
	SyndromeInvalidRequest   = 0x61 // NAK: invalid request
	SyndromeRemoteAccess     = 0x62 // NAK: remote access error
	SyndromeRemoteOperation  = 0x63 // NAK: remote operational error
	SyndromeInvalidRDRequest = 0x64 // NAK for RD, which is not implemented
)

// Decode reads the header at the beginning of b, or returns ErrShort.
func (h *AETH) Decode(b []byte) error {
	if len(b) < AETHLen {
		return ErrShort
	}
	*h = AETH{Syndrome: b[0], MSN: uint24(b[1:])}
	return nil
}

// EncodeTo writes the header into the first AETHLen bytes of b.
func (h *AETH) EncodeTo(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(h.Syndrome)<<24|h.MSN&0xffffff)
}

func (*AETH) extensionBit() Extension { return ExtAETH }

// rnrTimes are in units of 10 microseconds (IBTA §9.7.5.2.8).
var rnrTimes = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTime returns how long the timer field of an RNR NAK (the five low bits of
// code) asks the sender to wait: 10 us to 655.36 ms, which is code 0.
func RNRTime(code uint8) units.Time {
	return units.Time(rnrTimes[code&SyndromeOperand]) * 10 * units.Microsecond
}

// RNRCode returns the timer field for the shortest wait that is at least t, or
// 655.36 ms if t is longer.
func RNRCode(t units.Time) uint8 {
	for code := uint8(1); code < uint8(len(rnrTimes)); code++ {
		if RNRTime(code) >= t {
			return code
		}
	}
	return 0
}
