package tcp

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Phase is the phase of a connection.
type Phase uint8

// The phases of a Sender and of a Receiver.
const (
	Closed      Phase = iota
	Opening           // SYN-SENT, SYN-RECEIVED
	Established       // data flows
	Closing           // of a Receiver: its FIN is not acknowledged
	Done              // everything is acknowledged
	Failed            // Failure says why
)

// episode is what a sender currently recovers from. The names are from RFC 5681 and Linux.
type episode uint8

const (
	open     episode = iota
	cwr              // a mark has lowered the window
	recovery         // losses are being repaired
	loss             // likewise, after a timeout
)

// Counters counts events of a sender.
type Counters struct {
	Segments   uint64 `json:"segments"` // of data, including retransmissions
	Resent     uint64 `json:"resent"`
	Recoveries uint64 `json:"recoveries"`
	Timeouts   uint64 `json:"timeouts"`
	Probes     uint64 `json:"probes"`   // of the tail
	Spurious   uint64 `json:"spurious"` // recoveries that were reverted
	Marks      uint64 `json:"marks"`    // acknowledgements with ECE
}

// AddCounters adds the counters of another sender.
func (c *Counters) AddCounters(o Counters) {
	c.Segments += o.Segments
	c.Resent += o.Resent
	c.Recoveries += o.Recoveries
	c.Timeouts += o.Timeouts
	c.Probes += o.Probes
	c.Spurious += o.Spurious
	c.Marks += o.Marks
}

// Sender is the end that sends data. Inputs come in time order; after each, Ready and NextTimer
// are valid until the next.
type Sender struct {
	config  *Config
	control cc.Control
	burster cc.Burster  // control, if it has bursts
	size    units.Bytes // of the data
	full    units.Bytes // payload of a full segment
	count   int64       // segments
	iss     uint32
	peer    uint32 // next sequence number of the receiver
	echo    uint32 // timestamp to echo
	phase   Phase
	episode episode

	sampling, keeps bool // Traits of the control
	timestamps      bool // both ends have them
	selective       bool
	ecn             bool
	scale           uint8
	answer          bool // an acknowledgement must be sent
	sendCWR         bool // the next new segment carries CWR
	failure         string

	acked units.Bytes // in order; FIN counts as a byte
	right units.Bytes // edge of the receiver's window
	scoreboard

	pace   units.Time  // nothing leaves earlier except the rest of a burst
	burst  units.Bytes // that rest
	rtt    estimator
	rack   rack
	prr    reduction
	undo   undo
	tail   tail
	sample sampler

	over    bool       // the present acknowledgement has ended a recovery
	recover int64      // the episode ends when all before this segment is acknowledged
	rtoAt   units.Time // units.Never if it is not armed
	retries uint8
	backoff uint8
	counted Counters
}

// Reset prepares the sender for a new connection, still closed, that sends size bytes. c is
// shared, not copied, and has passed Check. t has the traits of the control. Reset keeps
// memory.
func (s *Sender) Reset(c *Config, control cc.Control, t cc.Traits, iss uint32, size units.Bytes) {
	board := s.scoreboard
	board.resetBoard(t.NeedsDelivery)
	*s = Sender{
		config: c, control: control, size: size, full: c.FullPayload(), iss: iss, rtoAt: units.Never,
		sampling: t.NeedsDelivery, keeps: t.KeepsWindow, scoreboard: board,
	}
	if c.Offload {
		s.burster, _ = control.(cc.Burster)
	}
	s.count = max(1, int64((size+s.full-1)/s.full))
	s.rtt.rto = c.InitialRTO
	s.rack.due, s.rack.mult, s.tail.at = units.Never, 1, units.Never
}

// Open begins the handshake.
func (s *Sender) Open(now units.Time) {
	s.phase, s.answer = Opening, true
}

// Phase returns the phase of the connection. It is Done when all data and the FIN are
// acknowledged.
func (s *Sender) Phase() Phase { return s.phase }

// Failure returns why the connection has failed.
func (s *Sender) Failure() string { return s.failure }

// AckedBytes returns the payload that is acknowledged in order.
func (s *Sender) AckedBytes() units.Bytes { return min(s.acked, s.size) }

// Counters returns the sender's counters.
func (s *Sender) Counters() Counters { return s.counted }

// Control returns the rate control of the flow.
func (s *Sender) Control() cc.Control { return s.control }

// SRTT returns the smoothed RTT, or 0 before the first sample. RTO returns the timeout.
func (s *Sender) SRTT() units.Time { return s.rtt.srtt }
func (s *Sender) RTO() units.Time  { return s.rtt.rto }

// InFlight returns the payload in flight.
func (s *Sender) InFlight() units.Bytes { return s.inFlight }

// payloadOf returns the payload of a segment.
func (s *Sender) payloadOf(k int64) units.Bytes {
	return min(s.full, s.size-units.Bytes(k)*s.full)
}

// segmentOf returns the segment that contains an offset in the stream, or count beyond the
// FIN.
func (s *Sender) segmentOf(at units.Bytes) int64 {
	if at > s.size {
		return s.count
	}
	return min(int64(at/s.full), s.count-1)
}

// endOf returns the offset after a segment. The FIN counts as a byte.
func (s *Sender) endOf(k int64) units.Bytes {
	if k == s.count-1 {
		return s.size + 1
	}
	return units.Bytes(k+1) * s.full
}

// offsetOf returns the offset in the stream of a sequence number within 2 GB of acked.
func (s *Sender) offsetOf(seq uint32) units.Bytes {
	return s.acked + units.Bytes(int32(seq-s.iss-1-uint32(s.acked)))
}

// NextDeparture returns when the next segment may leave, or units.Never if there is none. A time
// before now means now.
func (s *Sender) NextDeparture() units.Time {
	switch {
	case s.answer:
		return 0
	case s.phase != Established:
		return units.Never
	}
	if _, ok := s.nextSegment(); !ok {
		return units.Never
	}
	return s.pacingTime()
}

// pacingTime returns when pacing permits the next segment.
func (s *Sender) pacingTime() units.Time {
	if s.burst > 0 {
		return 0
	}
	return s.pace
}

// recordPaced records that a segment with a payload of n, size on the wire, leaves at the rate of
// the control. The window at the start of a burst limits its length: what the window holds
// back is paced as a new burst.
func (s *Sender) recordPaced(now units.Time, rate units.Rate, n, size units.Bytes) {
	if s.burster != nil && s.pace <= now {
		s.burst = s.burster.BurstSize()
		if w := s.currentWindow(); w > 0 {
			s.burst = min(s.burst, w-s.inFlight+n)
		}
	}
	s.burst = max(0, s.burst-n)
	s.pace = max(s.pace, now) + rate.TimeOf(size)
}

// nextSegment returns the segment to send next. Retransmissions go before new segments.
func (s *Sender) nextSegment() (k int64, ok bool) {
	if s.tail.due {
		return s.probeSegment(), true
	}
	if s.waiting > 0 {
		k = s.firstWaiting()
	} else if k = s.nxt; k == s.count || !s.fitsWindow(k) {
		return 0, false
	}
	w := s.currentWindow()
	return k, w == 0 || s.inFlight == 0 || s.inFlight+s.payloadOf(k) <= w
}

// ReceiveMessage passes a message of its protocol to the rate control. The remaining time until the
// next segment scales with the rate.
func (s *Sender) ReceiveMessage(now units.Time, m cc.Feedback) {
	if s.phase != Established {
		return
	}
	if s.control.NextTimer() <= now {
		s.control.OnTimer(now)
	}
	before := s.control.Rate()
	s.control.OnMessage(now, m)
	if after := s.control.Rate(); s.pace > now && before > 0 && after > 0 {
		s.pace = now + units.Time(float64(s.pace-now)*float64(before)/float64(after))
	}
}

// fitsWindow reports whether the receiver's window has room for a segment.
func (s *Sender) fitsWindow(k int64) bool { return min(s.endOf(k), s.size) <= s.right }

// currentWindow returns the current congestion window; 0 means no limit.
func (s *Sender) currentWindow() units.Bytes {
	if s.prr.active {
		return s.prr.window
	}
	return s.control.Window()
}

// NextSize returns the payload of the segment that Next would return at now.
func (s *Sender) NextSize(now units.Time) units.Bytes {
	if s.phase != Established || s.pacingTime() > now {
		return 0
	}
	if k, ok := s.nextSegment(); ok {
		return s.payloadOf(k)
	}
	return 0
}

// Next fills in the segment that leaves at now, and reports whether there is one.
func (s *Sender) Next(now units.Time, g *Segment) bool {
	*g = Segment{}
	switch {
	case s.phase == Opening && s.answer:
		s.fillSYN(now, g)
		return true
	case s.phase != Established:
		return false
	}
	if k, ok := s.nextSegment(); ok && s.pacingTime() <= now {
		s.sendData(now, g, k)
		return true
	}
	if !s.answer {
		return false
	}
	s.fillHeader(now, g, s.iss+1+uint32(s.endOf(s.nxt-1)))
	if s.nxt == 0 {
		g.Seq = s.iss + 1
	}
	s.answer = false
	return true
}

// fillSYN fills in a SYN.
func (s *Sender) fillSYN(now units.Time, g *Segment) {
	c := s.config
	g.Seq, g.Flags, g.Window = s.iss, SYN, uint16(min(c.Window, 65535))
	g.MSS, g.Scaling, g.Scale, g.SACKPermitted = uint16(c.MSS()), true, c.windowScale(), true
	if c.Timestamps {
		g.Timestamps, g.TSVal = true, timestampAt(now)
	}
	if c.ECN != NoECN {
		g.Flags |= ECE | CWR
	}
	s.answer = false
	if s.retries == 0 {
		s.rtt.asked = now
	}
	s.rtoAt = now + s.rtt.rto<<s.backoff
}

// fillHeader fills in a segment without payload.
func (s *Sender) fillHeader(now units.Time, g *Segment, seq uint32) {
	g.Seq, g.Ack, g.Flags, g.Window = seq, s.peer, ACK, uint16(s.config.Window>>s.config.windowScale())
	if s.timestamps {
		g.Timestamps, g.TSVal, g.TSEcr = true, timestampAt(now), s.echo
	}
}

// sendData sends a new or retransmitted segment of data.
func (s *Sender) sendData(now units.Time, g *Segment, k int64) {
	s.fillHeader(now, g, s.iss+1+uint32(units.Bytes(k)*s.full))
	n := s.payloadOf(k)
	g.Payload = uint32(n)
	if k == s.count-1 {
		g.Flags |= FIN | PSH
	}
	s.answer = false
	s.counted.Segments++
	idle := s.countOutstanding() == 0
	fresh := k == s.nxt
	var r *record
	if fresh {
		r = s.pushSegment()
		if s.sendCWR && s.ecn {
			g.Flags |= CWR
			s.sendCWR = false
		}
	} else {
		r = s.recordAt(k)
		s.recordResend(now, r, n)
	}
	// A retransmission is not ECN-capable (RFC 3168 §6.1.5), except with DCTCP, as in Linux.
	g.ECT = s.ecn && (fresh || s.config.ECN == DCTCP)
	r.at = now
	s.inFlight += n
	if s.sampling {
		s.sample.recordSent(now, r, s.departureAt(k), idle)
	}
	if s.nxt == s.count && s.sampling {
		s.sample.markAppLimited(s.inFlight)
	}
	size := s.onWire(g)
	s.control.OnPacketSent(now, size)
	if rate := s.control.Rate(); rate > 0 {
		s.recordPaced(now, rate, n, size)
	}
	if s.prr.active {
		s.prr.out += n
	}
	s.armAfterSend(now, k, fresh)
}

// recordResend records a retransmission.
func (s *Sender) recordResend(now units.Time, r *record, n units.Bytes) {
	s.counted.Resent++
	switch {
	case r.state.awaitsResend():
		s.waiting--
	case r.state.isInFlight(): // a probe: it counts as in flight once
		s.inFlight -= n
	}
	if r.state&lost != 0 {
		r.state |= resent
	}
	r.state |= twice
	s.undo.recordResend(timestampAt(now))
}

// onWire returns the size of a segment on a link.
func (s *Sender) onWire(g *Segment) units.Bytes {
	ip := units.Bytes(wire.IPv4Header)
	if s.config.IPv6 {
		ip = wire.IPv6Header
	}
	return packet.OnWire(wire.EthernetHeader + ip + units.Bytes(g.HeaderLen()) + units.Bytes(g.Payload))
}

// armAfterSend arms the timers after a segment has left.
func (s *Sender) armAfterSend(now units.Time, k int64, fresh bool) {
	if s.tail.due {
		s.recordProbe(!fresh)
		s.counted.Probes++
		s.rtoAt = now + s.currentRTO()
		return
	}
	if s.rtoAt == units.Never {
		s.rtoAt = now + s.currentRTO()
	}
	if fresh {
		s.armTail(now)
	}
}

// NextTimer returns when OnTimer is due, or units.Never.
func (s *Sender) NextTimer() units.Time {
	at := min(s.rtoAt, s.rack.due, s.tail.at)
	if s.phase == Established {
		at = min(at, s.control.NextTimer())
	}
	return at
}

// OnTimer handles timers that have expired by now.
func (s *Sender) OnTimer(now units.Time) {
	if s.phase == Established && s.control.NextTimer() <= now {
		s.control.OnTimer(now)
	}
	if s.rack.due <= now {
		s.markLost(now, 0)
		s.applyPRR(&ackInfo{})
	}
	if s.tail.at <= now {
		s.tail.at = units.Never
		s.tail.due = true
		s.rtoAt = units.Never // until the probe has left
		return
	}
	if s.rtoAt <= now {
		s.handleRTO(now)
	}
}

func (s *Sender) failConnection(now units.Time, why string) {
	if s.phase == Established {
		s.control.SetActive(now, false)
	}
	s.phase, s.failure, s.answer = Failed, why, false
	s.disarmTimers()
}

// disarmTimers disarms all timers.
func (s *Sender) disarmTimers() {
	s.rtoAt, s.rack.due, s.tail.at, s.tail.due = units.Never, units.Never, units.Never, false
}
