package ndp

import (
	"fmt"
	"math/rand/v2"

	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// Phase is the state of a connection at its sender.
type Phase uint8

// The phases.
const (
	Closed Phase = iota
	Active       // data is sent
	Done         // all is acknowledged
	Failed       // Failure says why
)

// Counters counts what has happened at senders, and at receivers of the same host.
type Counters struct {
	Packets  uint64 `json:"packets"`  // data packets sent, including retransmissions
	Resent   uint64 `json:"resent"`   // retransmissions
	ACKs     uint64 `json:"acks"`     // that arrived at senders
	NACKs    uint64 `json:"nacks"`    // likewise, for trimmed packets
	Pulls    uint64 `json:"pulls"`    // that arrived at senders
	Returned uint64 `json:"returned"` // headers that switches sent back
	Timeouts uint64 `json:"timeouts"` // packets sent again after a timeout, and lost PULLs
}

// AddCounters adds the counters of another sender.
func (c *Counters) AddCounters(o Counters) {
	c.Packets += o.Packets
	c.Resent += o.Resent
	c.ACKs += o.ACKs
	c.NACKs += o.NACKs
	c.Pulls += o.Pulls
	c.Returned += o.Returned
	c.Timeouts += o.Timeouts
}

// Start holds the parameters of a sender.
type Start struct {
	Service    uint8
	Connection uint32
	Size       units.Bytes // of the data
	Window     int         // packets before any PULL, 1 or more
	RTT        units.Time  // of the empty path, 0 if it is not known
	Rand       *rand.Rand  // for paths
}

// state is what a sender knows about a packet.
type state uint8

const (
	inFlight state = iota // sent, and nothing heard about it yet
	waiting               // to be sent again
	received              // acknowledged
)

// slot is a packet between the first unacknowledged one and the last one sent.
type slot struct {
	at    units.Time // when it was last sent
	path  uint16
	state state
	again bool // it was sent more than once
}

// launch is one transmission of a packet, for timeouts.
type launch struct {
	seq int64
	at  units.Time
}

// Sender is the sending end of a connection. Inputs come in time order; the results of CanSend
// and NextTimer hold until the next input.
type Sender struct {
	config *Config
	Start
	full  units.Bytes
	count int64 // packets
	phase Phase

	una, nxt int64 // first unacknowledged, first never sent
	slots    []slot
	again    queue.FIFO[int64]
	waits    int // packets to be sent again
	flies    int // packets in flight
	credit   int // packets that may be sent
	sent     uint32
	pulled   uint32 // highest pull number, limited to the packets sent
	answered uint32 // packets that arrived, whole or trimmed, according to the receiver
	acked    units.Bytes
	launched queue.FIFO[launch]
	paths    paths

	srtt, rttvar units.Time
	heard        units.Time // when the receiver or a switch was last heard
	backed       units.Time // when the timeout last doubled
	tries        int        // timeouts in a row
	failure      string
	counted      Counters
}

// Reset starts a connection at now. c must have passed Check and is shared, not copied. Reset
// keeps memory.
func (s *Sender) Reset(now units.Time, c *Config, x Start) {
	slots, again, launched, p := s.slots, s.again, s.launched, s.paths
	again.Clear()
	launched.Clear()
	p.resetPaths(c.Paths, c.PathPenalty)
	*s = Sender{config: c, Start: x, full: c.FullPayload(), phase: Active, slots: slots, again: again, launched: launched, paths: p, credit: x.Window, heard: now, backed: now}
	s.count = max(1, int64((x.Size+s.full-1)/s.full))
	if s.slots == nil {
		s.slots = make([]slot, 64)
	}
}

// Phase returns the phase of the connection.
func (s *Sender) Phase() Phase { return s.phase }

// Failure returns why the connection has failed.
func (s *Sender) Failure() string { return s.failure }

// AckedBytes returns the payload that is known to have arrived, in any order.
func (s *Sender) AckedBytes() units.Bytes { return s.acked }

// InFlight returns the payload in flight, as far as is known, in full packets.
func (s *Sender) InFlight() units.Bytes { return units.Bytes(s.flies) * s.full }

// WindowBytes returns the payload of the first window.
func (s *Sender) WindowBytes() units.Bytes { return units.Bytes(s.Window) * s.full }

// SRTT returns the smoothed RTT, 0 before the first.
func (s *Sender) SRTT() units.Time { return s.srtt }

// Counters returns the sender's counters.
func (s *Sender) Counters() Counters { return s.counted }

// CanSend reports whether a packet may be sent now.
func (s *Sender) CanSend() bool { return s.phase == Active && s.credit > 0 && s.hasPacket() }

// hasPacket reports whether there is a packet to send.
func (s *Sender) hasPacket() bool { return s.waits > 0 || s.nxt < s.count && s.nxt-s.una < span }

// dropUnusedCredit drops credit for which there is nothing to send, and ends a complete connection.
func (s *Sender) dropUnusedCredit() {
	if s.una == s.count {
		s.phase = Done
	}
	if !s.hasPacket() {
		s.credit = 0
	}
}

// slotOf returns the slot of a packet.
func (s *Sender) slotOf(seq int64) *slot { return &s.slots[seq&int64(len(s.slots)-1)] }

// payloadOf returns the payload of a packet.
func (s *Sender) payloadOf(seq int64) units.Bytes {
	return min(s.full, s.Size-units.Bytes(seq)*s.full)
}

// Next fills in the header of the packet to be sent at now and returns its payload; ok is false
// if there is none. Retransmissions go first.
func (s *Sender) Next(now units.Time, h *Header) (payload units.Bytes, ok bool) {
	if !s.CanSend() {
		return 0, false
	}
	path := s.paths.nextPath(s.Rand)
	var seq int64
	if s.waits > 0 {
		for seq = s.again.Pop(); seq < s.una || s.slotOf(seq).state != waiting; {
			seq = s.again.Pop()
		}
		s.waits--
		x := s.slotOf(seq)
		if path == x.path { // a NACK's path tells which transmission it is about
			path = s.paths.nextPath(s.Rand)
		}
		*x = slot{at: now, path: path, again: true}
		s.counted.Resent++
	} else {
		seq = s.nxt
		s.nxt++
		if s.nxt-s.una > int64(len(s.slots)) {
			s.growRing()
		}
		*s.slotOf(seq) = slot{at: now, path: path}
	}
	s.credit--
	s.flies++
	s.sent++
	s.counted.Packets++
	s.launched.Push(launch{seq, now})
	*h = Header{Service: s.Service, Path: path, Connection: s.Connection, Seq: uint32(seq), Pull: s.pulled}
	if seq < int64(s.Window) {
		h.Flags |= FlagSYN
	}
	if seq == s.count-1 {
		h.Flags |= FlagLast
	}
	s.dropUnusedCredit()
	return s.payloadOf(seq), true
}

// growRing doubles the room for packets; the last one's slot is not used yet.
func (s *Sender) growRing() {
	old := s.slots
	s.slots = make([]slot, 2*len(old))
	for k := s.una; k < s.nxt-1; k++ {
		*s.slotOf(k) = old[k&int64(len(old)-1)]
	}
}

// findPacket returns the packet with a sequence number, or nil if it is not between the first
// unacknowledged packet and the last one sent.
func (s *Sender) findPacket(n uint32) (int64, *slot) {
	seq := s.una + int64(int32(n-uint32(s.una)))
	if seq < s.una || seq >= s.nxt {
		return 0, nil
	}
	return seq, s.slotOf(seq)
}

// Receive handles an ACK, a NACK or a PULL. Data is ignored.
func (s *Sender) Receive(now units.Time, h *Header) {
	if s.phase != Active || h.Flags.IsData() {
		return
	}
	s.recordContact(now)
	switch h.Flags {
	case FlagACK:
		s.counted.ACKs++
		s.handleAck(now, h)
	case FlagNACK:
		s.counted.NACKs++
		// A packet that is sent again takes another path, if there is one: a late NACK is
		// recognised by its path.
		if seq, x := s.findPacket(h.Seq); x != nil && x.state == inFlight && (x.path == h.Path || s.config.Paths == 1) {
			s.answered++
			s.paths.recordPacket(x.path, true)
			s.scheduleResend(seq, x)
		}
	case FlagPULL:
		s.counted.Pulls++
	}
	// Pull numbers are cumulative: one makes up for those that were lost. No more can be
	// pulled than was sent.
	if more := min(int32(h.Pull-s.pulled), int32(s.sent-s.pulled)); more > 0 {
		s.pulled += uint32(more)
		s.credit += int(more)
	}
	s.dropUnusedCredit()
}

// recordContact records that the network is alive.
func (s *Sender) recordContact(now units.Time) { s.heard, s.backed, s.tries = now, now, 0 }

// handleAck handles the ACK of a packet.
func (s *Sender) handleAck(now units.Time, h *Header) {
	seq, x := s.findPacket(h.Seq)
	if x == nil || x.state == received {
		return
	}
	s.answered++
	s.paths.recordPacket(h.Path, false)
	switch {
	case x.state == waiting:
		s.waits--
	default:
		s.flies--
		if !x.again {
			s.sampleRTT(now - x.at)
		}
	}
	x.state = received
	s.acked += s.payloadOf(seq)
	for s.una < s.nxt && s.slotOf(s.una).state == received {
		s.una++
	}
}

// sampleRTT handles an RTT sample (RFC 6298).
func (s *Sender) sampleRTT(rtt units.Time) {
	if s.srtt == 0 {
		s.srtt, s.rttvar = rtt, rtt/2
		return
	}
	s.rttvar += (max(rtt-s.srtt, s.srtt-rtt) - s.rttvar) / 4
	s.srtt += (rtt - s.srtt) / 8
}

// scheduleResend schedules a packet in flight to be sent again.
func (s *Sender) scheduleResend(seq int64, x *slot) {
	x.state = waiting
	s.flies--
	s.waits++
	s.again.Push(seq)
}

// ReceiveReturned handles the header of a data packet that a switch has sent back.
func (s *Sender) ReceiveReturned(now units.Time, h *Header) {
	seq, x := s.findPacket(h.Seq)
	if s.phase != Active || x == nil || x.state != inFlight || x.path != h.Path {
		return
	}
	s.recordContact(now)
	s.counted.Returned++
	s.scheduleResend(seq, x)
	if s.credit == 0 && !s.expectsPulls() {
		s.credit = 1
	}
	s.dropUnusedCredit()
}

// expectsPulls reports whether PULLs are still expected, for packets in flight or for those that
// were answered.
func (s *Sender) expectsPulls() bool { return s.flies > 0 || int32(s.answered-s.pulled) > 0 }

// currentRTO returns the retransmission timeout.
func (s *Sender) currentRTO() units.Time {
	base := max(s.config.RTO, 3*s.RTT, s.srtt+4*s.rttvar)
	t := base
	for k := 0; k < s.tries && t < s.config.MaxRTO; k++ {
		t *= 2
	}
	return max(base, min(t, s.config.MaxRTO))
}

// NextTimer returns when to call OnTimer, or units.Never.
func (s *Sender) NextTimer() units.Time {
	if s.phase != Active {
		return units.Never
	}
	s.pruneLaunches()
	switch {
	case s.flies > 0:
		return s.launched.First().at + s.currentRTO()
	case s.credit == 0:
		return s.heard + s.currentRTO() // a lost PULL
	}
	return units.Never
}

// pruneLaunches drops launches of packets whose fate is known.
func (s *Sender) pruneLaunches() {
	for s.launched.Len() > 0 {
		l := s.launched.First()
		if x := s.slotOf(l.seq); l.seq >= s.una && x.state == inFlight && x.at == l.at {
			return
		}
		s.launched.DropFirst()
	}
}

// OnTimer does what is due at now.
func (s *Sender) OnTimer(now units.Time) {
	for s.phase == Active && s.NextTimer() <= now {
		s.counted.Timeouts++
		at := s.heard
		if s.flies > 0 {
			l := s.launched.First()
			at = l.at
			x := s.slotOf(l.seq)
			s.paths.recordPacket(x.path, true)
			s.scheduleResend(l.seq, x)
		} else {
			s.answered = s.pulled
			s.heard = now
		}
		s.credit++
		if at >= s.backed {
			s.backed = now
			if s.tries++; s.tries > s.config.Retries {
				s.phase = Failed
				s.failure = fmt.Sprintf("no answer after %d timeouts in a row", s.tries)
			}
		}
		s.dropUnusedCredit()
	}
}
