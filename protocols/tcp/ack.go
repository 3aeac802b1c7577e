package tcp

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// ackInfo is the information that one acknowledgement brings.
type ackInfo struct {
	payload units.Bytes // newly known to have arrived
	packets uint32
	rtt     units.Time // of the newest segment with a known RTT; 0 if there is none
	oldest  units.Time // RTT of the oldest one, used for the timeout
	moved   bool       // the cumulative acknowledgement has advanced
	sacked  bool       // it reports segments out of order
	double  bool       // it reports a duplicate segment
}

// Receive handles a segment from the receiver.
func (s *Sender) Receive(now units.Time, g *Segment) {
	switch {
	case s.phase != Opening && s.phase != Established:
		return
	case g.Flags&RST != 0:
		if s.phase == Established && g.Seq == s.peer || s.phase == Opening && g.Flags&ACK != 0 && g.Ack == s.iss+1 {
			s.failConnection(now, "connection reset by the receiver")
		}
		return
	case s.phase == Opening:
		s.takeSYNACK(now, g)
		return
	case g.Flags&ACK == 0:
		return
	case g.Flags&SYN != 0: // our answer was lost
		s.answer = true
		return
	}
	if s.timestamps && g.Timestamps && int32(g.TSVal-s.echo) > 0 {
		s.echo = g.TSVal
	}
	at := s.offsetOf(g.Ack)
	if at > s.sentEnd() {
		return // it acknowledges data that was never sent
	}
	s.right = max(s.right, at+units.Bytes(g.Window)<<s.scale)
	s.handleAck(now, g, at)
}

// sentEnd returns the offset after the last byte sent.
func (s *Sender) sentEnd() units.Bytes {
	if s.nxt == 0 {
		return 0
	}
	return s.endOf(s.nxt - 1)
}

// takeSYNACK handles the receiver's part of the handshake.
func (s *Sender) takeSYNACK(now units.Time, g *Segment) {
	if g.Flags&(SYN|ACK) != SYN|ACK || g.Ack != s.iss+1 {
		return
	}
	c := s.config
	s.phase, s.peer, s.answer = Established, g.Seq+1, true
	s.timestamps = c.Timestamps && g.Timestamps
	s.echo = g.TSVal
	s.selective = g.SACKPermitted
	s.ecn = c.ECN != NoECN && g.Flags&(ECE|CWR) == ECE
	if g.Scaling {
		s.scale = min(g.Scale, maxScale)
	}
	s.right = units.Bytes(g.Window)
	if s.retries == 0 {
		s.rtt.addSample(now-s.rtt.asked, c)
	}
	s.rtoAt, s.retries, s.backoff = units.Never, 0, 0
	s.control.SetActive(now, true)
	if z, ok := s.control.(cc.Sized); ok {
		z.OnDataQueued(now, s.size)
	}
	s.sample.beginFlow(now)
}

// handleAck handles an acknowledgement of everything before offset at.
func (s *Sender) handleAck(now units.Time, g *Segment, at units.Bytes) {
	var n ackInfo
	before := s.una
	s.sample.beginAck()
	s.handleSACK(now, g, at, &n)
	if at > s.acked {
		n.moved = true
		s.acked = at
		s.removeAcked(now, s.segmentOf(at), &n)
		s.retries, s.backoff = 0, 0
	}
	if n.oldest > 0 {
		s.rtt.addSample(n.oldest, s.config)
	}
	s.high = max(s.high, s.rack.top)
	s.tailAnswered(now, at, &n)
	if s.acked == s.size+1 {
		s.finishConnection(now, g, &n)
		return
	}
	if s.episode != open || n.double {
		s.reviewRecovery(now, g, before, &n)
	}
	marked := g.Flags&ECE != 0 && s.ecn
	if marked {
		s.counted.Marks++
	}
	s.markLost(now, n.payload)
	s.notifyCC(now, &n, marked)
	s.applyPRR(&n)
	s.rearmTimers(now, &n)
}

// finishConnection ends the connection: everything is acknowledged.
func (s *Sender) finishConnection(now units.Time, g *Segment, n *ackInfo) {
	s.notifyCC(now, n, g.Flags&ECE != 0 && s.ecn)
	s.phase, s.answer = Done, false
	s.disarmTimers()
	s.control.SetActive(now, false)
}

// notifyCC passes an acknowledgement to the rate control. If the control lowers its window
// for a mark, tell starts a window reduction.
func (s *Sender) notifyCC(now units.Time, n *ackInfo, marked bool) {
	if n.payload == 0 && !marked {
		return
	}
	a := cc.Ack{
		Acked: s.AckedBytes(), Sent: min(units.Bytes(s.nxt)*s.full, s.size), Newly: n.payload, Packets: n.packets,
		InFlight: s.inFlight, RTT: n.rtt, Marked: marked,
	}
	if s.sampling {
		a.Delivery = s.sample.takeSample(s.rtt.minRTT)
	}
	before := s.control.Window()
	inFlight := s.inFlight + n.payload
	s.control.OnAck(now, &a)
	if !marked || s.episode != open {
		return
	}
	if s.control.Window() < before {
		s.episode, s.recover, s.sendCWR = cwr, s.nxt, true
		s.prr.beginReduction(inFlight, s.keeps)
	} else if s.config.ECN == ClassicECN {
		s.sendCWR = true // the receiver repeats ECE until then, whatever the control does
	}
}

// removeAcked removes segments that are acknowledged in order, up to una.
func (s *Sender) removeAcked(now units.Time, una int64, n *ackInfo) {
	for k := s.una; k < una; k++ {
		r := s.recordAt(k)
		if r.state&sacked != 0 {
			s.arrived--
		} else {
			s.markDelivered(now, k, r, n)
		}
	}
	s.una = una
}

// markDelivered records that a segment has arrived.
func (s *Sender) markDelivered(now units.Time, k int64, r *record, n *ackInfo) {
	size := s.payloadOf(k)
	n.payload += size
	n.packets++
	if r.state.isInFlight() {
		s.inFlight -= size
	}
	if r.state.awaitsResend() {
		s.waiting--
	}
	rtt := now - r.at
	if r.state&twice == 0 {
		// Of a retransmitted segment it is not known which copy arrived (Karn's
		// algorithm).
		n.oldest = max(n.oldest, rtt)
		if n.rtt == 0 || rtt < n.rtt {
			n.rtt = rtt
		}
		if k < s.high {
			s.rack.reordered = true
		}
	}
	s.rack.recordDelivered(r.at, k, rtt, r.state&twice != 0 && rtt < s.rtt.minRTT)
	if s.sampling {
		s.sample.recordDelivered(now, size, r, s.departureAt(k))
	}
}

// handleSACK handles the selective acknowledgements. at is the cumulative acknowledgement.
func (s *Sender) handleSACK(now units.Time, g *Segment, at units.Bytes, n *ackInfo) {
	if !s.selective {
		return
	}
	for i, b := range g.SACK() {
		from, to := s.offsetOf(b.From), s.offsetOf(b.To)
		if from >= to || to > s.sentEnd() {
			continue
		}
		if i == 0 && s.isDSACK(from, to, at, g) {
			n.double = true
			s.handleDuplicates(from, to)
			continue
		}
		if from < s.acked {
			continue
		}
		for k := s.segmentFrom(from); k < s.nxt && s.endOf(k) <= to; k++ {
			r := s.recordAt(k)
			if r.state&sacked != 0 {
				continue
			}
			s.markDelivered(now, k, r, n)
			r.state = r.state&^(lost|resent) | sacked
			s.arrived++
			n.sacked = true
		}
	}
}

// segmentFrom returns the first unacknowledged segment that begins at an offset or
// later.
func (s *Sender) segmentFrom(at units.Bytes) int64 {
	return max(s.una, int64((at+s.full-1)/s.full))
}

// isDSACK reports whether the first block is of a duplicate segment (RFC 2883 §4): it is
// below the cumulative acknowledgement, or within the second block.
func (s *Sender) isDSACK(from, to, at units.Bytes, g *Segment) bool {
	if from < at {
		return true
	}
	if g.BlockCount < 2 {
		return false
	}
	second := g.Blocks[1]
	return from >= s.offsetOf(second.From) && to <= s.offsetOf(second.To)
}

// rearmTimers rearms the timers.
func (s *Sender) rearmTimers(now units.Time, n *ackInfo) {
	if !n.moved && !n.sacked {
		return
	}
	if s.countOutstanding() == 0 {
		s.rtoAt, s.tail.at, s.tail.due = units.Never, units.Never, false
		return
	}
	if n.moved || s.rtoAt == units.Never {
		s.rtoAt = now + s.currentRTO()
	}
	s.tail.due = false
	s.armTail(now)
}
