package transport

import "github.com/weftlab/weft/sim/units"

// AckTimeout returns the local ACK timeout of a code, 1 to 31: 4.096 µs · 2^code. 0 means none
// (§9.7.6.1.3).
func AckTimeout(code uint8) units.Time {
	if code &= 31; code != 0 {
		return 4096 * units.Nanosecond << code
	}
	return units.Never
}
