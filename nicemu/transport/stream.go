package transport

import "github.com/weftlab/weft/sim/units"

// stream is the sending end of a sequence of PSNs: what is on its way, for how long an
// answer is awaited, and what decides about sending again. A requester has one.
type stream struct {
	sender Sender // nil where nothing is acknowledged: UC and UD

	una, next PSN        // the window
	asked     PSN        // behind the newest that an answer was asked for
	urge      bool       // the next packet asks for one
	ackSince  units.Time // when the ACK timer was started; units.Never while it does not run
	retries   uint8      // left
	moved     units.Time // when the window moved up, or ceased to be empty
	stamps    stamps
}

func (s *stream) window() Window { return Window{s.una, s.next} }

// waits tells whether something is outstanding that an answer was asked for.
func (s *stream) waits() bool {
	n := s.asked.From(s.una)
	return n > 0 && n <= s.window().Len()
}

// start starts the timer, or stops it if nothing is outstanding.
func (s *stream) start(now units.Time) {
	s.ackSince = units.Never
	if s.una != s.next {
		s.ackSince = now
	}
}

// deadline is when the timer expires, given the local ACK timeout.
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
