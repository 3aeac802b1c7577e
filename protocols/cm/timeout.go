package cm

import "github.com/weftlab/weft/sim/units"

// Timeout is a span as connection management writes it: 4.096 us times two to
// the power of this, of 5 bits (IBTA §12.7). 0 is 4.096 us, 20 is 4.29 s, 31
// is 2 h 27 min.
//
// In fields that hold a local ACK timeout, 0 stands for no timeout at all
// (IBTA §9.7.6.1.3): who reads them must ask for that first.
type Timeout uint8

// MaxTimeout is the largest of the field.
const MaxTimeout Timeout = 31

// timeoutUnit is what a Timeout of 0 stands for.
const timeoutUnit = 4096 * units.Nanosecond

// Time is the span. Only the five low bits count.
func (t Timeout) Time() units.Time { return timeoutUnit << (t & MaxTimeout) }

// TimeoutOf is the shortest Timeout that is not shorter than t, or MaxTimeout
// if none is.
func TimeoutOf(t units.Time) Timeout {
	for x := Timeout(0); x < MaxTimeout; x++ {
		if x.Time() >= t {
			return x
		}
	}
	return MaxTimeout
}

// Counts that mean something beyond a number.
const (
	// RNRForever, as an RNR retry count: try again without end (IBTA §9.7.5.2.8).
	RNRForever = 7
	// MaxRetries is the largest retry count, of 3 bits; unlike RNRForever it is
	// a plain number.
	MaxRetries = 7
	// MaxCMRetries is the largest count of repeated messages, of 4 bits.
	MaxCMRetries = 15
)
