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
			s.fail(now, "connection reset by the receiver")
		}
		return
	case s.phase == Opening:
		s.opened(now, g)
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
	at := s.offset(g.Ack)
	if at > s.reach() {
		return // it acknowledges data that was never sent
	}
	s.right = max(s.right, at+units.Bytes(g.Window)<<s.scale)
	s.acknowledged(now, g, at)
}

// reach returns the offset after the last byte sent.
func (s *Sender) reach() units.Bytes {
	if s.nxt == 0 {
		return 0
	}
	return s.end(s.nxt - 1)
}

// opened handles the receiver's part of the handshake.
func (s *Sender) opened(now units.Time, g *Segment) {
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
		s.rtt.add(now-s.rtt.asked, c)
	}
	s.rtoAt, s.retries, s.backoff = units.Never, 0, 0
	s.control.Active(now, true)
	if z, ok := s.control.(cc.Sized); ok {
		z.Queued(now, s.size)
	}
	s.sample.begin(now)
}

// acknowledged handles an acknowledgement of everything before offset at.
func (s *Sender) acknowledged(now units.Time, g *Segment, at units.Bytes) {
	var n ackInfo
	before := s.una
	s.sample.fresh()
	s.selected(now, g, at, &n)
	if at > s.acked {
		n.moved = true
		s.acked = at
		s.advance(now, s.segmentOf(at), &n)
		s.retries, s.backoff = 0, 0
	}
	if n.oldest > 0 {
		s.rtt.add(n.oldest, s.config)
	}
	s.high = max(s.high, s.rack.top)
	s.tailAnswered(now, at, &n)
	if s.acked == s.size+1 {
		s.finish(now, g, &n)
		return
	}
	if s.episode != open || n.double {
		s.reconsider(now, g, before, &n)
	}
	marked := g.Flags&ECE != 0 && s.ecn
	if marked {
		s.counted.Marks++
	}
	s.markLost(now, n.payload)
	s.notifyCC(now, &n, marked)
	s.proportion(&n)
	s.rearm(now, &n)
}

// finish ends the connection: everything is acknowledged.
func (s *Sender) finish(now units.Time, g *Segment, n *ackInfo) {
	s.notifyCC(now, n, g.Flags&ECE != 0 && s.ecn)
	s.phase, s.answer = Done, false
	s.stop()
	s.control.Active(now, false)
}

// notifyCC passes an acknowledgement to the rate control. If the control lowers its window
// for a mark, tell starts a window reduction.
func (s *Sender) notifyCC(now units.Time, n *ackInfo, marked bool) {
	if n.payload == 0 && !marked {
		return
	}
	a := cc.Ack{
		Acked: s.Acked(), Sent: min(units.Bytes(s.nxt)*s.full, s.size), Newly: n.payload, Packets: n.packets,
		InFlight: s.inFlight, RTT: n.rtt, Marked: marked,
	}
	if s.sampling {
		a.Delivery = s.sample.takeSample(s.rtt.least)
	}
	before := s.control.Window()
	flying := s.inFlight + n.payload
	s.control.Acked(now, &a)
	if !marked || s.episode != open {
		return
	}
	if s.control.Window() < before {
		s.episode, s.recover, s.sendCWR = cwr, s.nxt, true
		s.prr.begin(flying, s.keeps)
	} else if s.config.ECN == ClassicECN {
		s.sendCWR = true // the receiver repeats ECE until then, whatever the control does
	}
}

// advance removes segments that are acknowledged in order, up to una.
func (s *Sender) advance(now units.Time, una int64, n *ackInfo) {
	for k := s.una; k < una; k++ {
		r := s.at(k)
		if r.state&sacked != 0 {
			s.arrived--
		} else {
			s.deliver(now, k, r, n)
		}
	}
	s.una = una
}

// deliver records that a segment has arrived.
func (s *Sender) deliver(now units.Time, k int64, r *record, n *ackInfo) {
	size := s.length(k)
	n.payload += size
	n.packets++
	if r.state.flies() {
		s.inFlight -= size
	}
	if r.state.waits() {
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
	s.rack.delivered(r.at, k, rtt, r.state&twice != 0 && rtt < s.rtt.least)
	if s.sampling {
		s.sample.delivered(now, size, r, s.left(k))
	}
}

// selected handles the selective acknowledgements. at is the cumulative acknowledgement.
func (s *Sender) selected(now units.Time, g *Segment, at units.Bytes, n *ackInfo) {
	if !s.selective {
		return
	}
	for i, b := range g.SACK() {
		from, to := s.offset(b.From), s.offset(b.To)
		if from >= to || to > s.reach() {
			continue
		}
		if i == 0 && s.double(from, to, at, g) {
			n.double = true
			s.duplicates(from, to)
			continue
		}
		if from < s.acked {
			continue
		}
		for k := s.segmentFrom(from); k < s.nxt && s.end(k) <= to; k++ {
			r := s.at(k)
			if r.state&sacked != 0 {
				continue
			}
			s.deliver(now, k, r, n)
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

// double reports whether the first block is of a duplicate segment (RFC 2883 §4): it is
// below the cumulative acknowledgement, or within the second block.
func (s *Sender) double(from, to, at units.Bytes, g *Segment) bool {
	if from < at {
		return true
	}
	if g.BlockCount < 2 {
		return false
	}
	second := g.Blocks[1]
	return from >= s.offset(second.From) && to <= s.offset(second.To)
}

// rearm rearms the timers.
func (s *Sender) rearm(now units.Time, n *ackInfo) {
	if !n.moved && !n.sacked {
		return
	}
	if s.outstanding() == 0 {
		s.rtoAt, s.tail.at, s.tail.due = units.Never, units.Never, false
		return
	}
	if n.moved || s.rtoAt == units.Never {
		s.rtoAt = now + s.timeout()
	}
	s.tail.due = false
	s.armTail(now)
}
