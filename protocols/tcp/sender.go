package tcp

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Phase is how far a connection is.
type Phase uint8

// The phases of a Sender and of a Receiver.
const (
	Closed      Phase = iota
	Opening           // SYN-SENT, SYN-RECEIVED
	Established       // data goes
	Closing           // of a Receiver: its FIN is not acknowledged
	Done              // all is acknowledged
	Failed            // Failure says why
)

// episode is what a sender recovers from at present (with the names of RFC 5681 and Linux).
type episode uint8

const (
	open     episode = iota
	cwr              // a mark has lowered the window
	recovery         // losses are being repaired
	loss             // likewise, after a timeout
)

// Counters count what a sender has met.
type Counters struct {
	Segments   uint64 `json:"segments"` // of data, also those that were sent again
	Resent     uint64 `json:"resent"`
	Recoveries uint64 `json:"recoveries"`
	Timeouts   uint64 `json:"timeouts"`
	Probes     uint64 `json:"probes"`   // of the tail
	Spurious   uint64 `json:"spurious"` // recoveries that were taken back
	Marks      uint64 `json:"marks"`    // acknowledgements with ECE
}

// Add adds what another sender has met.
func (c *Counters) Add(o Counters) {
	c.Segments += o.Segments
	c.Resent += o.Resent
	c.Recoveries += o.Recoveries
	c.Timeouts += o.Timeouts
	c.Probes += o.Probes
	c.Spurious += o.Spurious
	c.Marks += o.Marks
}

// Sender is the end that has data. Inputs come in the order of time; after each, Ready and
// Timer hold until the next.
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
	answer          bool // an acknowledgement is to be sent
	sendCWR         bool // the next new segment says CWR
	failure         string

	acked units.Bytes // in order, with the FIN as a byte
	right units.Bytes // edge of the receiver's window
	scoreboard

	pace   units.Time  // nothing leaves earlier, but the rest of a burst
	burst  units.Bytes // that rest
	rtt    estimator
	rack   rack
	prr    reduction
	undo   undo
	tail   tail
	sample sampler

	over    bool       // a recovery, with the present acknowledgement
	recover int64      // the episode is over when all before this segment is acknowledged
	rtoAt   units.Time // units.Never if it is not armed
	retries uint8
	backoff uint8
	counted Counters
}

// Reset makes the sender one of a new connection that is still closed, which is to send
// size bytes. c is shared, not copied, and has passed Check. t are the traits of the
// control. Memory is kept.
func (s *Sender) Reset(c *Config, control cc.Control, t cc.Traits, iss uint32, size units.Bytes) {
	board := s.scoreboard
	board.reset(t.NeedsDelivery)
	*s = Sender{
		config: c, control: control, size: size, full: c.Full(), iss: iss, rtoAt: units.Never,
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

// Phase is how far the connection is: Done when all data and the FIN are acknowledged.
func (s *Sender) Phase() Phase { return s.phase }

// Failure is why it has failed.
func (s *Sender) Failure() string { return s.failure }

// Acked is the payload that is acknowledged in order.
func (s *Sender) Acked() units.Bytes { return min(s.acked, s.size) }

// Counters are what the sender has met.
func (s *Sender) Counters() Counters { return s.counted }

// Control is the rate control of the flow.
func (s *Sender) Control() cc.Control { return s.control }

// SRTT is the smoothed RTT, 0 before the first; RTO is the timeout.
func (s *Sender) SRTT() units.Time { return s.rtt.srtt }
func (s *Sender) RTO() units.Time  { return s.rtt.rto }

// InFlight is the payload that is taken to be on its way.
func (s *Sender) InFlight() units.Bytes { return s.flying }

// length is the payload of a segment.
func (s *Sender) length(k int64) units.Bytes {
	return min(s.full, s.size-units.Bytes(k)*s.full)
}

// segmentOf is the first segment that is not before an offset in the stream.
func (s *Sender) segmentOf(at units.Bytes) int64 {
	if at > s.size {
		return s.count
	}
	return min(int64(at/s.full), s.count-1)
}

// end is the offset behind a segment, with the FIN as a byte.
func (s *Sender) end(k int64) units.Bytes {
	if k == s.count-1 {
		return s.size + 1
	}
	return units.Bytes(k+1) * s.full
}

// offset is where in the stream a sequence number is, within 2 GB of what is acknowledged.
func (s *Sender) offset(seq uint32) units.Bytes {
	return s.acked + units.Bytes(int32(seq-s.iss-1-uint32(s.acked)))
}

// Ready is when the next segment may leave, units.Never while there is none. A time
// before now is now.
func (s *Sender) Ready() units.Time {
	switch {
	case s.answer:
		return 0
	case s.phase != Established:
		return units.Never
	}
	if _, ok := s.next(); !ok {
		return units.Never
	}
	return s.gate()
}

// gate is when pacing lets the next segment go.
func (s *Sender) gate() units.Time {
	if s.burst > 0 {
		return 0
	}
	return s.pace
}

// paced notes that a segment with a payload of n, size on the wire, leaves at the rate of the
// control. A burst is as long as the window has room for when it begins: what the window
// holds back is paced as a new burst.
func (s *Sender) paced(now units.Time, rate units.Rate, n, size units.Bytes) {
	if s.burster != nil && s.pace <= now {
		s.burst = s.burster.Burst()
		if w := s.window(); w > 0 {
			s.burst = min(s.burst, w-s.flying+n)
		}
	}
	s.burst = max(0, s.burst-n)
	s.pace = max(s.pace, now) + rate.TimeOf(size)
}

// next is the segment that is to leave next: one that is sent again goes before new ones.
func (s *Sender) next() (k int64, ok bool) {
	if s.tail.due {
		return s.probe(), true
	}
	if s.waiting > 0 {
		k = s.firstWaiting()
	} else if k = s.nxt; k == s.count || !s.fits(k) {
		return 0, false
	}
	w := s.window()
	return k, w == 0 || s.flying == 0 || s.flying+s.length(k) <= w
}

// Message tells the rate control of a message of its protocol. What is left of the time until
// the next segment changes with the rate.
func (s *Sender) Message(now units.Time, m cc.Feedback) {
	if s.phase != Established {
		return
	}
	if s.control.Timer() <= now {
		s.control.Tick(now)
	}
	before := s.control.Rate()
	s.control.Message(now, m)
	if after := s.control.Rate(); s.pace > now && before > 0 && after > 0 {
		s.pace = now + units.Time(float64(s.pace-now)*float64(before)/float64(after))
	}
}

// fits tells whether the receiver's window has room for a segment.
func (s *Sender) fits(k int64) bool { return min(s.end(k), s.size) <= s.right }

// window is the congestion window at present; 0 is without limit.
func (s *Sender) window() units.Bytes {
	if s.prr.active {
		return s.prr.window
	}
	return s.control.Window()
}

// Size is the payload of the segment that Next would give at now.
func (s *Sender) Size(now units.Time) units.Bytes {
	if s.phase != Established || s.gate() > now {
		return 0
	}
	if k, ok := s.next(); ok {
		return s.length(k)
	}
	return 0
}

// Next makes the segment that leaves at now, and tells whether there is one.
func (s *Sender) Next(now units.Time, g *Segment) bool {
	*g = Segment{}
	switch {
	case s.phase == Opening && s.answer:
		s.open(now, g)
		return true
	case s.phase != Established:
		return false
	}
	if k, ok := s.next(); ok && s.gate() <= now {
		s.send(now, g, k)
		return true
	}
	if !s.answer {
		return false
	}
	s.head(now, g, s.iss+1+uint32(s.end(s.nxt-1)))
	if s.nxt == 0 {
		g.Seq = s.iss + 1
	}
	s.answer = false
	return true
}

// open makes a SYN.
func (s *Sender) open(now units.Time, g *Segment) {
	c := s.config
	g.Seq, g.Flags, g.Window = s.iss, SYN, uint16(min(c.Window, 65535))
	g.MSS, g.Scaling, g.Scale, g.SACKPermitted = uint16(c.MSS()), true, c.scale(), true
	if c.Timestamps {
		g.Timestamps, g.TSVal = true, timestamp(now)
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

// head makes a segment without payload.
func (s *Sender) head(now units.Time, g *Segment, seq uint32) {
	g.Seq, g.Ack, g.Flags, g.Window = seq, s.peer, ACK, uint16(s.config.Window>>s.config.scale())
	if s.timestamps {
		g.Timestamps, g.TSVal, g.TSEcr = true, timestamp(now), s.echo
	}
}

// send sends a segment of data, new or again.
func (s *Sender) send(now units.Time, g *Segment, k int64) {
	s.head(now, g, s.iss+1+uint32(units.Bytes(k)*s.full))
	n := s.length(k)
	g.Payload = uint32(n)
	if k == s.count-1 {
		g.Flags |= FIN | PSH
	}
	s.answer = false
	s.counted.Segments++
	idle := s.outstanding() == 0
	fresh := k == s.nxt
	var r *record
	if fresh {
		r = s.push()
		if s.sendCWR && s.ecn {
			g.Flags |= CWR
			s.sendCWR = false
		}
	} else {
		r = s.at(k)
		s.resend(now, r, n)
	}
	// A packet that is sent again is not ECN-capable (RFC 3168 §6.1.5), but with DCTCP, as
	// in Linux.
	g.ECT = s.ecn && (fresh || s.config.ECN == DCTCP)
	r.at = now
	s.flying += n
	if s.sampling {
		s.sample.sent(now, r, s.left(k), idle)
	}
	if s.nxt == s.count && s.sampling {
		s.sample.limit(s.flying)
	}
	size := s.onWire(g)
	s.control.Sent(now, size)
	if rate := s.control.Rate(); rate > 0 {
		s.paced(now, rate, n, size)
	}
	if s.prr.active {
		s.prr.out += n
	}
	s.departed(now, k, fresh)
}

// resend notes that a segment is sent again.
func (s *Sender) resend(now units.Time, r *record, n units.Bytes) {
	s.counted.Resent++
	switch {
	case r.state.waits():
		s.waiting--
	case r.state.flies(): // a probe: it flies once
		s.flying -= n
	}
	if r.state&lost != 0 {
		r.state |= resent
	}
	r.state |= twice
	s.undo.resent(timestamp(now))
}

// onWire is what a segment takes of a link.
func (s *Sender) onWire(g *Segment) units.Bytes {
	ip := units.Bytes(wire.IPv4Header)
	if s.config.IPv6 {
		ip = wire.IPv6Header
	}
	return packet.OnWire(wire.EthernetHeader + ip + units.Bytes(g.HeaderLen()) + units.Bytes(g.Payload))
}

// departed arms the timers for a segment that has left.
func (s *Sender) departed(now units.Time, k int64, fresh bool) {
	if s.tail.due {
		s.probed(!fresh)
		s.counted.Probes++
		s.rtoAt = now + s.timeout()
		return
	}
	if s.rtoAt == units.Never {
		s.rtoAt = now + s.timeout()
	}
	if fresh {
		s.armTail(now)
	}
}

// Timer is when Tick is due, units.Never if it is not.
func (s *Sender) Timer() units.Time {
	at := min(s.rtoAt, s.rack.due, s.tail.at)
	if s.phase == Established {
		at = min(at, s.control.Timer())
	}
	return at
}

// Tick does what is due by now.
func (s *Sender) Tick(now units.Time) {
	if s.phase == Established && s.control.Timer() <= now {
		s.control.Tick(now)
	}
	if s.rack.due <= now {
		s.judge(now, 0)
		s.proportion(&news{})
	}
	if s.tail.at <= now {
		s.tail.at = units.Never
		s.tail.due = true
		s.rtoAt = units.Never // until the probe has left
		return
	}
	if s.rtoAt <= now {
		s.expired(now)
	}
}

func (s *Sender) fail(now units.Time, why string) {
	if s.phase == Established {
		s.control.Active(now, false)
	}
	s.phase, s.failure, s.answer = Failed, why, false
	s.stop()
}

// stop disarms everything.
func (s *Sender) stop() {
	s.rtoAt, s.rack.due, s.tail.at, s.tail.due = units.Never, units.Never, units.Never, false
}
