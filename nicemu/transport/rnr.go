package transport

import "github.com/weftlab/weft/emu/units"

// rnrTimes are the times that an RNR NAK may ask for, in units of 10 µs, by the
// five low bits of its syndrome (§9.7.5.2.8, table 45).
var rnrTimes = [32]units.Time{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTime is how long the code of an RNR NAK, 0 to 31, asks a requester to wait:
// 10 µs to 655.36 ms.
func RNRTime(code uint8) units.Time { return rnrTimes[code&31] * 10 * units.Microsecond }

// AckTimeout is the local ACK timeout of a code, 1 to 31: 4.096 µs · 2^code. 0
// means none (§9.7.6.1.3).
func AckTimeout(code uint8) units.Time {
	if code &= 31; code != 0 {
		return 4096 * units.Nanosecond << code
	}
	return units.Never
}
