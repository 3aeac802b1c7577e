package tunnel

import "github.com/weftlab/weft/sim/units"

// OnTimer does what is due by now. Next returns an RTS that is due.
func (s *Sender[P]) OnTimer(now units.Time) {
	if s.rtoAt <= now {
		s.expirePackets(now)
	}
	if s.askAt <= now {
		s.asking, s.askAt = true, units.Never
	}
	switch {
	case s.IsIdle():
	case now-s.heard >= s.config.GiveUp:
		s.counted.GivenUp += uint64(s.queue.Len() + s.lost + s.inFlight)
		s.abandonPackets()
		s.phase = Closed
	case s.timeouts >= s.config.Timeouts:
		s.replaceIncarnation(now, s.epoch)
	}
	s.checkCredit(now)
}

// expirePackets considers packets lost that have been in flight for too long.
func (s *Sender[P]) expirePackets(now units.Time) {
	rto := s.backedOffRTO(s.backoff)
	next, expired := units.Never, false
	for i := range s.sent.Len() {
		r := s.sent.At(i)
		switch {
		case r.fate != inFlight:
		case r.at+rto <= now:
			s.paths.all[r.path].Lost++
			s.markMissing(i)
			expired = true
		default:
			next = min(next, r.at+rto)
		}
	}
	if expired && now >= s.quietTo {
		s.counted.Timeouts++
		s.timeouts++
		s.backoff = min(s.backoff+1, maxDoublings)
		s.quietTo = now + rto // further losses of this window do not count
	}
	s.rtoAt = next
}

// markMissing marks a packet in flight as missing, so that it is sent again.
func (s *Sender[P]) markMissing(i int) {
	r := s.sent.At(i)
	r.fate = missing
	s.inFlight--
	s.lost++
	s.lostAt = min(s.lostAt, i)
	s.again += units.Bytes(r.size)
}
