package transport

import "github.com/weftlab/weft/sim/units"

// stream is the sending end of a sequence of PSNs: the packets under way, the timer for answers,
// and the loss recovery. A requester has one.
type stream struct {
	sender Sender // nil if nothing is acknowledged: UC and UD

	una, next   PSN        // the window
	requestedTo PSN        // after the newest for which an answer was requested
	urge        bool       // the next packet requests one
	ackSince    units.Time // when the ACK timer was started; units.Never while it does not run
	retries     uint8      // left
	moved       units.Time // when the window moved up, or became non-empty
	stamps      stamps
}

func (s *stream) window() Window { return Window{s.una, s.next} }

// waits reports whether an answer was requested for an outstanding packet.
func (s *stream) waits() bool {
	n := s.requestedTo.From(s.una)
	return n > 0 && n <= s.window().Len()
}

// start starts the timer, or stops it if nothing is outstanding.
func (s *stream) start(now units.Time) {
	s.ackSince = units.Never
	if s.una != s.next {
		s.ackSince = now
	}
}

// deadline returns when the timer expires, given the local ACK timeout.
func (s *stream) deadline(local units.Time) units.Time {
	if s.ackSince == units.Never {
		return units.Never
	}
	t := s.sender.Timeout(s.window(), local)
	if t == units.Never {
		return units.Never
	}
	return s.ackSince + t
}
