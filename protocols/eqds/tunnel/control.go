package tunnel

import (
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
)

// ReceiveControl handles a control packet of the receiver. It reports whether the packet belongs to
// this incarnation; others change nothing, or make the sender start over.
func (s *Sender[P]) ReceiveControl(now units.Time, c *eqds.Control) bool {
	ok := s.handleControl(now, c)
	s.checkCredit(now)
	return ok
}

func (s *Sender[P]) handleControl(now units.Time, c *eqds.Control) bool {
	switch {
	case s.phase == Closed || c.Sender != s.id:
		return false
	case c.Flags.Has(eqds.FlagRST):
		// The receiver is closed, or in another incarnation. It names a packet of this
		// incarnation, or the next packet, which an RTS has named.
		if s.phase == Established && c.Ack-s.una <= uint16(s.sent.Len()) {
			s.heard = now
			s.replaceIncarnation(now, s.epoch)
		}
		return false
	case c.Flags.Has(eqds.FlagSYN):
		if !s.checkEpoch(now, c) {
			return false
		}
	case s.phase != Established || s.concernsUnsent(c) || s.concernsEarlier(c):
		// The receiver may be in another incarnation and not notice; timeouts reveal that.
		return false
	}
	s.heard, s.busy = now, now+c.BusyTime()
	progress := c.Flags.ReportsOnPacket() && s.handleVerdict(now, c)
	if s.takePullNumber(c) {
		progress, s.waits = true, 0
	}
	if progress {
		s.backoff = 0
	}
	if progress || c.Pull == s.pull {
		s.timeouts = 0
	}
	return true
}

// checkEpoch compares epochs (Appendix A), and reports whether the packet belongs to this
// incarnation.
func (s *Sender[P]) checkEpoch(now units.Time, c *eqds.Control) bool {
	e := eqds.EpochOf(c.Ack)
	alone := !c.Flags.ReportsOnPacket() && !c.Flags.Has(eqds.FlagPULL)
	switch {
	case e == s.epoch && (alone || s.concernsUnsent(c)):
		// The receiver knows the epoch from an earlier incarnation.
		if s.phase == SynSent {
			s.heard = now
			s.replaceIncarnation(now, e)
		}
		return false
	case e == s.epoch:
		s.phase = Established
		return true
	case !s.epoch.After(e):
		s.heard = now
		s.replaceIncarnation(now, e)
	}
	return false
}

// concernsUnsent reports whether a control packet is about a packet that has not been sent yet.
func (s *Sender[P]) concernsUnsent(c *eqds.Control) bool {
	return c.Flags.ReportsOnPacket() && int16(c.Ack-s.nxt) >= 0
}

// concernsEarlier reports whether a control packet is about a packet of an earlier incarnation. Its pull
// number then has no meaning. The number before the first packet belongs to no packet: it means
// that nothing has arrived.
func (s *Sender[P]) concernsEarlier(c *eqds.Control) bool {
	behind := s.una - c.Ack
	return c.Flags.ReportsOnPacket() && int16(behind) > 0 && s.since < eqds.Span && behind > s.since+1
}

// takePullNumber handles the pull number, and reports whether it gives credit.
func (s *Sender[P]) takePullNumber(c *eqds.Control) bool {
	n := int16(c.Pull - s.pull)
	switch {
	case n <= 0:
		return false
	case n > int16(s.told-s.pull):
		s.counted.Unasked++
		return false
	}
	s.pull = c.Pull
	s.credit += units.Bytes(n) * s.config.MTU
	return true
}

// handleVerdict handles what a control packet says about packets, and reports whether that is new.
func (s *Sender[P]) handleVerdict(now units.Time, c *eqds.Control) (news bool) {
	i := int(c.Ack - s.una)
	if i >= s.sent.Len() {
		return false // acknowledged before, or never sent
	}
	switch {
	case c.Flags.Has(eqds.FlagNACK):
		r := s.sent.At(i)
		if news = r.fate == inFlight; news {
			s.counted.Trimmed++
			s.paths.all[r.path].Trimmed++
			s.markMissing(i)
		}
	case c.Flags.Has(eqds.FlagSACK):
		news = s.markArrived(now, i, true)
	default:
		fresh := 0
		for k := range i + 1 {
			if s.sent.At(k).fate != acked {
				fresh++
			}
		}
		for k := range i + 1 {
			// If packets are acknowledged together, the last of them is the one that has just
			// arrived.
			timed := fresh == 1 || k == i && s.config.Credit > 1
			news = s.markArrived(now, k, timed) || news
		}
	}
	s.dropAcked()
	if s.inFlight == 0 {
		s.rtoAt = units.Never
	}
	return news
}

// markArrived records that the receiver has a packet, and reports whether that is new. timed means
// that the acknowledgement gives an RTT sample for the packet.
func (s *Sender[P]) markArrived(now units.Time, i int, timed bool) bool {
	r := s.sent.At(i)
	o := Outcome{Delivered: true, Path: r.path, Tries: r.tries}
	switch r.fate {
	case acked:
		return false
	case missing:
		s.lost--
		s.again -= units.Bytes(r.size)
	case inFlight:
		s.inFlight--
		if timed && r.tries == 1 {
			o.RTT = now - r.at
			s.paths.all[r.path].sampleRTT(o.RTT)
			s.sampleRTT(o.RTT)
		}
	}
	r.fate = acked
	var none P
	p := r.p
	r.p = none
	s.done(p, o)
	return true
}

// dropAcked removes the packets that are acknowledged in order.
func (s *Sender[P]) dropAcked() {
	for s.sent.Len() > 0 && s.sent.First().fate == acked {
		r := s.sent.Pop()
		s.span -= units.Bytes(r.size)
		s.una++
		s.since = min(s.since+1, eqds.Span)
		s.lostAt = max(0, s.lostAt-1)
	}
}

// sampleRTT handles an RTT sample (RFC 6298 §2).
func (s *Sender[P]) sampleRTT(rtt units.Time) {
	if s.srtt == 0 {
		s.srtt, s.rttvar = rtt, rtt/2
		return
	}
	d := s.srtt - rtt
	if d < 0 {
		d = -d
	}
	s.rttvar += (d - s.rttvar) / 4
	s.srtt += (rtt - s.srtt) / 8
}
