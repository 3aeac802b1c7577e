package tcp

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// tail is the state of the tail loss probe, TLP (RFC 8985 §7).
type tail struct {
	at   units.Time  // when it is due; units.Never if it is not armed
	end  units.Bytes // end of the data sent by then
	due  bool        // it must leave at once
	out  bool        // it is in flight
	copy bool        // it was a retransmission
}

// longestDelay is how long a receiver may delay the acknowledgement of a single segment
// (WCDelAckT).
const longestDelay = 200 * units.Millisecond

// armTail arms the timer of the probe.
func (s *Sender) armTail(now units.Time) {
	t := &s.tail
	t.at = units.Never
	if !s.config.TailProbes || !s.selective || t.out || s.episode != open || s.arrived > 0 || s.countOutstanding() == 0 {
		return
	}
	wait := 2 * s.rtt.srtt
	if s.rtt.srtt == 0 {
		wait = s.config.InitialRTO
	}
	if s.countOutstanding() == 1 {
		wait += longestDelay
	}
	t.at = min(now+wait, s.rtoAt)
}

// probeSegment returns the segment to send as a probe: a new one or, if there is none, the last.
func (s *Sender) probeSegment() int64 {
	if s.nxt < s.count && s.fitsWindow(s.nxt) {
		return s.nxt
	}
	return s.nxt - 1
}

// recordProbe records that the probe has left, and the end of the data sent by then.
func (s *Sender) recordProbe(again bool) {
	s.tail = tail{at: units.Never, end: s.sentEnd(), out: true, copy: again}
}

// tailAnswered checks an acknowledgement against the probe (RFC 8985 §7.4.2).
func (s *Sender) tailAnswered(now units.Time, at units.Bytes, n *ackInfo) {
	t := &s.tail
	if !t.out || at < t.end {
		return
	}
	switch {
	case !t.copy, n.double: // everything had arrived before
		t.out = false
	case at > t.end: // the probe repaired a loss that nothing else reports
		t.out = false
		if s.episode == open {
			s.counted.Recoveries++
			s.control.OnLoss(now, cc.Loss{Payload: s.full})
		}
	case !n.moved && !n.sacked:
		t.out = false
	}
}
