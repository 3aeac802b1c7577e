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

func (s *stream) psnWindow() Window { return Window{s.una, s.next} }

// awaitsAnswer reports whether an answer was requested for an outstanding packet.
func (s *stream) awaitsAnswer() bool {
	n := s.requestedTo.From(s.una)
	return n > 0 && n <= s.psnWindow().Len()
}

// restartTimer starts the timer, or stops it if nothing is outstanding.
func (s *stream) restartTimer(now units.Time) {
	s.ackSince = units.Never
	if s.una != s.next {
		s.ackSince = now
	}
}

// timerDeadline returns when the timer expires, given the local ACK timeout.
func (s *stream) timerDeadline(local units.Time) units.Time {
	if s.ackSince == units.Never {
		return units.Never
	}
	t := s.sender.ExpiryTime(s.psnWindow(), local)
	if t == units.Never {
		return units.Never
	}
	return s.ackSince + t
}
