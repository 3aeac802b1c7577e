package tcp

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// rack is the state of RACK (RFC 8985 §5.2): of the segments that have arrived, the one
// sent last.
type rack struct {
	at        units.Time // when it was sent
	segment   int64
	rtt       units.Time
	top       int64 // one beyond the highest segment that has arrived
	due       units.Time
	mult      uint8 // reo_wnd_mult
	persist   uint8 // reo_wnd_persist
	reordered bool
	widened   bool  // in this round
	round     int64 // the round ends when this segment is acknowledged
}

// threshold is the number of segments out of order that indicate a loss if no reordering
// was seen (RFC 5681's DupThresh).
const threshold = 3

// wideRounds is the number of recoveries that a wider reordering window lasts (RFC 8985
// §6.2).
const wideRounds = 16

// recordDelivered records a segment that has arrived. doubtful means that it may be the first
// copy of a retransmitted segment (RFC 8985 §6.2, step 2).
func (r *rack) recordDelivered(at units.Time, k int64, rtt units.Time, doubtful bool) {
	r.top = max(r.top, k+1)
	if doubtful {
		return
	}
	if at > r.at || at == r.at && k >= r.segment {
		r.at, r.segment, r.rtt = at, k, rtt
	}
}

// handleDuplicates handles a range that the receiver got twice: segments were reordered by
// more than the reordering window, or acknowledgements were lost.
func (s *Sender) handleDuplicates(from, to units.Bytes) {
	s.undo.recordDuplicates((to-from+s.full-1)/s.full, to)
	r := &s.rack
	if r.widened && s.una < r.round {
		return
	}
	r.widened, r.round = true, s.nxt
	if r.mult < 255 {
		r.mult++
	}
	r.persist = wideRounds
}

// resetReoWnd records the end of a recovery.
func (r *rack) resetReoWnd() {
	if r.persist == 0 {
		return
	}
	if r.persist--; r.persist == 0 {
		r.mult = 1
	}
}

// reoWnd returns the reordering window (RFC 8985 §6.2, step 4).
func (s *Sender) reoWnd() units.Time {
	r := &s.rack
	if !r.reordered && (s.episode == recovery || s.episode == loss || s.arrived >= threshold) {
		return 0
	}
	return min(s.rtt.minRTT/4*units.Time(r.mult), s.rtt.srtt)
}

// markLost marks segments as lost that were sent long enough before one that has arrived,
// and starts or continues a recovery. newly is the payload that the present
// acknowledgement covers.
func (s *Sender) markLost(now units.Time, newly units.Bytes) {
	found, due := s.markOverdue(now)
	s.rack.due = due
	again := s.over && (s.waiting > 0 || s.resentInFlight() > 0)
	s.over = false
	if found == 0 && !again {
		return
	}
	switch s.episode {
	case open, cwr:
		s.recoverFrom(now, found, newly, again)
	case recovery:
		s.prr.missed = true
		s.control.OnLoss(now, cc.Loss{Payload: found})
	case loss:
		// The window has restarted. Segments found lost now were sent before.
	}
}

// markOverdue marks lost segments, and returns when the next segment would count as lost.
func (s *Sender) markOverdue(now units.Time) (found units.Bytes, due units.Time) {
	due = units.Never
	r, wait := &s.rack, units.Time(0)
	if r.top == 0 || s.countOutstanding() == 0 {
		return 0, due
	}
	wait = r.rtt + s.reoWnd()
	for k := s.una; k < s.nxt; k++ {
		x := s.recordAt(k)
		if x.at > r.at || x.at == r.at && k >= r.segment {
			if x.state&twice == 0 {
				break // all later segments left later
			}
			continue
		}
		if !x.state.isInFlight() {
			continue
		}
		if x.at+wait > now {
			due = min(due, x.at+wait)
			continue
		}
		found += s.loseSegment(k, x)
	}
	return found, due
}

// loseSegment marks a segment in flight as lost.
func (s *Sender) loseSegment(k int64, x *record) units.Bytes {
	n := s.payloadOf(k)
	s.inFlight -= n
	x.state = x.state&^resent | lost
	s.waiting++
	s.again = min(s.again, k)
	return n
}

// recoverFrom starts a recovery. again means that another recovery has just ended.
func (s *Sender) recoverFrom(now units.Time, found, newly units.Bytes, again bool) {
	before := s.inFlight + found + newly
	s.counted.Recoveries++
	s.undo.beginRecovery(s.acked, s.resentInFlight())
	if s.episode == cwr {
		before = max(before, s.prr.flight)
	}
	s.episode, s.recover, s.sendCWR = recovery, s.nxt, true
	s.control.OnLoss(now, cc.Loss{Payload: found, Again: again})
	s.prr.beginReduction(before, s.keeps)
	s.prr.missed = true
	s.tail.at, s.tail.due = units.Never, false
}

// reviewRecovery ends the recovery if it is over or was spurious.
func (s *Sender) reviewRecovery(now units.Time, g *Segment, before int64, n *ackInfo) {
	recovering := s.episode == recovery || s.episode == loss
	if s.undo.isSpurious(s.timestamps && recovering && s.una > before, g.TSEcr, n.double) {
		s.undoRecovery(now)
		return
	}
	if s.una < s.recover || s.episode == cwr && s.una == s.recover {
		return // marks are old until CWR has arrived
	}
	if recovering {
		s.rack.resetReoWnd()
		s.over = true
	}
	s.episode = open
	s.prr.active = false
}

// undoRecovery reverts a recovery.
func (s *Sender) undoRecovery(now units.Time) {
	s.counted.Spurious++
	for k := s.una; k < s.nxt; k++ {
		x := s.recordAt(k)
		if x.state.awaitsResend() {
			s.waiting--
			s.inFlight += s.payloadOf(k)
		}
		x.state &^= lost | resent
	}
	s.episode = open
	s.prr.active = false
	s.undo.marker = false
	if u, ok := s.control.(cc.Undoer); ok {
		u.UndoReduction(now)
	}
}

// handleRTO handles the retransmission timeout (RFC 6298 §5, RFC 8985 §6.3).
func (s *Sender) handleRTO(now units.Time) {
	if int(s.retries) >= s.config.Retries || s.phase == Opening && s.retries >= synRetries {
		s.failConnection(now, "no answer from the receiver, after the last retry of the timeout")
		return
	}
	s.retries++
	s.backoff++
	s.counted.Timeouts++
	if s.phase == Opening {
		s.answer, s.rtoAt = true, units.Never
		return
	}
	if s.episode == open || s.episode == cwr {
		s.undo.beginRecovery(s.acked, s.resentInFlight())
	}
	var found units.Bytes
	wait := s.rack.rtt + s.reoWnd()
	for k := s.una; k < s.nxt; k++ {
		x := s.recordAt(k)
		if x.state.isInFlight() && (k == s.una || x.at+wait <= now) {
			found += s.loseSegment(k, x)
		}
	}
	s.episode, s.recover, s.sendCWR = loss, s.nxt, true
	s.prr.active = false
	s.rtoAt = now + s.currentRTO()
	s.rack.due, s.tail.at, s.tail.due, s.tail.out = units.Never, units.Never, false, false
	s.control.OnLoss(now, cc.Loss{Payload: found, Timeout: true})
}

// synRetries is the number of retransmissions of a SYN, as in Linux.
const synRetries = 6
