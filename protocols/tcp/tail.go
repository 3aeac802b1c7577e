package tcp

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// tail is the probe for the tail, TLP (RFC 8985 §7).
type tail struct {
	at   units.Time  // when it is to go; units.Never if it is not
	end  units.Bytes // what was sent then
	due  bool        // it is to leave at once
	out  bool        // it is under way
	copy bool        // it was a segment that had been sent before
}

// longestDelay is how long a receiver may delay the acknowledgement of a single segment
// (WCDelAckT).
const longestDelay = 200 * units.Millisecond

// armTail has a probe sent when nothing is heard.
func (s *Sender) armTail(now units.Time) {
	t := &s.tail
	t.at = units.Never
	if !s.config.TailProbes || !s.selective || t.out || s.episode != open || s.arrived > 0 || s.outstanding() == 0 {
		return
	}
	wait := 2 * s.rtt.srtt
	if s.rtt.srtt == 0 {
		wait = s.config.InitialRTO
	}
	if s.outstanding() == 1 {
		wait += longestDelay
	}
	t.at = min(now+wait, s.rtoAt)
}

// probe is the segment that goes as a probe: a new one or, where there is none, the last.
func (s *Sender) probe() int64 {
	if s.nxt < s.count && s.fits(s.nxt) {
		return s.nxt
	}
	return s.nxt - 1
}

// probed notes that the probe has left, with all that was sent until then.
func (s *Sender) probed(again bool) {
	s.tail = tail{at: units.Never, end: s.reach(), out: true, copy: again}
}

// tailAnswered looks what an acknowledgement says of a probe (RFC 8985 §7.4.2).
func (s *Sender) tailAnswered(now units.Time, at units.Bytes, n *news) {
	t := &s.tail
	if !t.out || at < t.end {
		return
	}
	switch {
	case !t.copy, n.double: // all had arrived before
		t.out = false
	case at > t.end: // the probe has made a loss good, of which nothing else tells
		t.out = false
		if s.episode == open {
			s.counted.Recoveries++
			s.control.Lost(now, cc.Loss{Payload: s.full})
		}
	case !n.moved && !n.sacked:
		t.out = false
	}
}
