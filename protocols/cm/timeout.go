package cm

import "github.com/weftlab/weft/sim/units"

// Timeout is the code of a time in connection management: 4.096 us times two to
// the power of its 5 bits (IBTA §12.7). 0 is 4.096 us, 20 is 4.29 s, 31 is 2 h
// 27 min.
//
// In fields that hold a local ACK timeout, 0 means no timeout at all (IBTA
// §9.7.6.1.3): readers must check for that first.
type Timeout uint8

// MaxTimeout is the largest Timeout.
const MaxTimeout Timeout = 31

// timeoutUnit is the time that a Timeout of 0 stands for.
const timeoutUnit = 4096 * units.Nanosecond

// Time returns the time. Only the five low bits count.
func (t Timeout) Time() units.Time { return timeoutUnit << (t & MaxTimeout) }

// TimeoutOf returns the shortest Timeout that is not shorter than t, or
// MaxTimeout if there is none.
func TimeoutOf(t units.Time) Timeout {
	for x := Timeout(0); x < MaxTimeout; x++ {
		if x.Time() >= t {
			return x
		}
	}
	return MaxTimeout
}

// Special and largest values of counts.
const (
	// RNRForever, as an RNR retry count, means to retry without end (IBTA
	// §9.7.5.2.8).
	RNRForever = 7
	// MaxRetries is the largest retry count, of 3 bits; unlike RNRForever it is
	// a plain number.
	MaxRetries = 7
	// MaxCMRetries is the largest count of repeated messages, of 4 bits.
	MaxCMRetries = 15
)
