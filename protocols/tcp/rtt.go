package tcp

import "github.com/weftlab/weft/sim/units"

// estimator estimates the RTT and the timeout (RFC 6298 §2).
type estimator struct {
	srtt, rttvar, rto units.Time
	minRTT            units.Time // lowest RTT so far; 0 before the first
	asked             units.Time // when the SYN left
}

// addSample adds a sample. As in Linux, MinRTO bounds the variance part of the timeout, so
// that the timeout is at least SRTT plus MinRTO.
func (e *estimator) addSample(rtt units.Time, c *Config) {
	if e.srtt == 0 {
		e.srtt, e.rttvar = rtt, rtt/2
	} else {
		delta := e.srtt - rtt
		if delta < 0 {
			delta = -delta
		}
		e.rttvar += (delta - e.rttvar) / 4
		e.srtt += (rtt - e.srtt) / 8
	}
	if e.minRTT == 0 || rtt < e.minRTT {
		e.minRTT = rtt
	}
	e.rto = min(e.srtt+max(4*e.rttvar, c.MinRTO), c.MaxRTO)
}

// currentRTO returns the timeout with backoff.
func (s *Sender) currentRTO() units.Time {
	t := s.rtt.rto
	for range s.backoff {
		if t *= 2; t >= s.config.MaxRTO {
			return s.config.MaxRTO
		}
	}
	return t
}
