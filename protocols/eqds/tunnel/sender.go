package tunnel

import (
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// Phase is the state of a sender (Fig. 26).
type Phase uint8

// The phases of a Sender.
const (
	Closed Phase = iota
	SynSent
	Established
)

var phaseNames = [...]string{"closed", "syn-sent", "established"}

// String returns the name used in messages.
func (p Phase) String() string { return phaseNames[p] }

// Outcome is the fate of a packet that a sender had.
type Outcome struct {
	Delivered bool // the receiver has acknowledged it
	Path      uint8
	Tries     uint8      // how many times it was sent, up to 255
	RTT       units.Time // 0 if not measured: sent more than once, or acknowledged with others
}

// item is a packet that waits.
type item[P any] struct {
	p    P
	size uint32
}

// fate is what a sender knows about a packet that it has sent.
type fate uint8

const (
	inFlight fate = iota
	missing
	acked
)

// record is a packet that was sent.
type record[P any] struct {
	item[P]
	at    units.Time // when it was last sent
	fate  fate
	path  uint8
	tries uint8
}

// Counters counts what has happened at a sender.
type Counters struct {
	Packets, Resent  uint64 // data packets: total, retransmitted
	Requests         uint64 // RTS
	Timeouts         uint64
	Trimmed          uint64 // NACKs
	Opened, Reopened uint64 // incarnations: total, in place of others
	Unasked          uint64 // pull numbers beyond the target
	GivenUp          uint64 // packets dropped because the receiver was silent
}

// Sender is the sending end of a tunnel. P is the type of the packets that it carries. Inputs
// come in time order; the results of NextSize and NextTimer hold until the next input.
type Sender[P any] struct {
	config *Config
	rand   *rand.Rand
	done   func(p P, o Outcome)
	id     uint8
	phase  Phase
	epoch  eqds.Epoch
	known  bool // epoch is the previous incarnation's

	una, nxt uint16
	since    uint16                // how many numbers precede una in this incarnation, up to eqds.Span
	sent     queue.FIFO[record[P]] // from una to before nxt
	queue    queue.FIFO[item[P]]
	lost     int // packets of sent that are missing
	lostAt   int // none before this one is missing
	inFlight int // packets of sent that are in flight

	queued, again, span units.Bytes // in queue, missing, from una on
	credit              units.Bytes
	pull, told          uint16 // highest number that arrived, highest target that was sent

	busy   units.Time  // until when the receiver is busy
	heard  units.Time  // when the receiver was last heard, or something began to wait for it
	burst  units.Time  // when a sender that starts over may send a window at once
	rtoAt  units.Time  // units.Never if nothing is in flight
	askAt  units.Time  // when an RTS becomes due; units.Never if none will
	asking bool        // an RTS is due
	ready  units.Bytes // what NextSize returns; it is called far more often than this changes

	srtt, rttvar   units.Time
	backoff, waits uint8      // doublings of the timeouts of packets and of RTS
	timeouts       int        // timeouts without progress
	quietTo        units.Time // until then, packets that expire belong to the same timeout

	paths   paths
	counted Counters
}

// NewSender returns the sender of a host's EQIF with number id. c must have passed Check and is
// shared, not copied. done is called for each pushed packet when the sender no longer needs it.
func NewSender[P any](c *Config, id uint8, r *rand.Rand, done func(p P, o Outcome)) *Sender[P] {
	s := &Sender[P]{config: c, id: id, rand: r, done: done, rtoAt: units.Never, askAt: units.Never}
	s.paths.resetPaths(c.Paths)
	return s
}

// ResumeAfter makes the first incarnation of a new sender follow epoch e, the epoch of an earlier
// sender of the same tunnel. Without it the epoch is random, and the receiver may know a
// greater one, which costs a round trip.
func (s *Sender[P]) ResumeAfter(e eqds.Epoch) { s.epoch, s.known = e, true }

// Phase returns the phase of the tunnel.
func (s *Sender[P]) Phase() Phase { return s.phase }

// Epoch returns the epoch of this incarnation, or of the last one.
func (s *Sender[P]) Epoch() eqds.Epoch { return s.epoch }

// Queue returns how much waits to be sent for the first time.
func (s *Sender[P]) Queue() (packets int, bytes units.Bytes) { return s.queue.Len(), s.queued }

// Unacknowledged returns the number of packets that the sender keeps because the receiver may
// not have them: those in flight and those that are missing.
func (s *Sender[P]) Unacknowledged() int { return s.inFlight + s.lost }

// IsIdle reports whether the sender has no packets.
func (s *Sender[P]) IsIdle() bool { return s.sent.Len() == 0 && s.queue.Len() == 0 }

// Credit returns how much the sender may send now.
func (s *Sender[P]) Credit() units.Bytes { return s.credit }

// PullQueue returns how many MTUs of credit the receiver was asked for and has not given: the
// paper's pull queue of a destination.
func (s *Sender[P]) PullQueue() int { return int(s.told - s.pull) }

// BusyUntil returns until when the receiver has said that it is busy.
func (s *Sender[P]) BusyUntil() units.Time { return s.busy }

// SRTT returns the smoothed round-trip time over all paths, 0 before the first.
func (s *Sender[P]) SRTT() units.Time { return s.srtt }

// Paths returns what is known about the paths, by path ID. It is not a copy.
func (s *Sender[P]) Paths() []Path { return s.paths.all }

// Counters returns the sender's counters.
func (s *Sender[P]) Counters() Counters { return s.counted }

// Push queues a packet whose frame in the tunnel has size bytes. It returns false for one
// longer than the MTU, which stays with the caller. The caller decides how many may wait
// (package eqif).
func (s *Sender[P]) Push(now units.Time, p P, size units.Bytes) bool {
	if size > s.config.MTU || size <= 0 {
		return false
	}
	if s.IsIdle() {
		s.startSending(now)
	}
	s.queue.Push(item[P]{p, uint32(size)})
	s.queued += size
	s.checkCredit(now)
	return true
}

// startSending starts to send after the sender was idle.
func (s *Sender[P]) startSending(now units.Time) {
	s.heard, s.timeouts, s.backoff, s.waits = now, 0, 0, 0
	if s.phase == Closed {
		s.openIncarnation(now, true)
		return
	}
	// A burst is allowed when the busy time is over (§5). What the receiver still owes is part
	// of the window.
	if s.config.Backend == NDP && now >= s.busy {
		s.credit = max(s.credit, s.config.Window-units.Bytes(s.told-s.pull)*s.config.MTU)
	}
}

// openIncarnation begins an incarnation. burst means that it may send before any PULL.
func (s *Sender[P]) openIncarnation(now units.Time, burst bool) {
	if s.known {
		s.epoch = s.epoch.Next()
	} else {
		s.epoch = eqds.EpochOf(uint16(s.rand.Uint32()))
	}
	s.phase, s.known = SynSent, true
	s.una = s.epoch.First()
	s.nxt, s.since = s.una, 0
	s.pull, s.told, s.credit = 0, 0, 0
	if s.config.Backend == NDP && burst && now >= s.busy {
		s.credit = s.config.Window
	}
	s.counted.Opened++
}

// replaceIncarnation replaces an incarnation that does not work by a new one; its packets wait again. The
// new epoch is greater than after.
func (s *Sender[P]) replaceIncarnation(now units.Time, after eqds.Epoch) {
	for i := s.sent.Len() - 1; i >= 0; i-- {
		if r := s.sent.At(i); r.fate != acked {
			s.queue.PushFirst(r.item)
			s.queued += units.Bytes(r.size)
		}
	}
	s.forgetSent()
	s.epoch, s.timeouts = after, 0
	if s.queue.Len() == 0 {
		s.phase = Closed
		return
	}
	s.counted.Reopened++
	// A peer that makes a sender start over again and again gets no window for it.
	burst := now >= s.burst
	if burst {
		s.burst = now + s.baseRTO()
	}
	s.openIncarnation(now, burst)
}

// forgetSent drops the state of all packets that were sent.
func (s *Sender[P]) forgetSent() {
	for s.sent.Len() > 0 {
		s.sent.Pop()
	}
	s.una = s.nxt
	s.lost, s.lostAt, s.inFlight, s.again, s.span = 0, 0, 0, 0, 0
	s.rtoAt, s.askAt, s.asking, s.ready = units.Never, units.Never, false, 0
}

// DropState drops all state, including the epoch and the paths, and all packets, as if the sender
// were out of memory or the host had restarted.
func (s *Sender[P]) DropState() {
	s.abandonPackets()
	s.phase, s.known, s.busy, s.srtt, s.rttvar = Closed, false, 0, 0, 0
	s.paths.resetPaths(s.config.Paths)
}

// Close ends a tunnel that is Idle, and returns the RST that tells the receiver; nothing
// depends on whether it arrives. It returns false if the tunnel is already closed or not Idle.
func (s *Sender[P]) Close() (eqds.Data, bool) {
	if s.phase == Closed || !s.IsIdle() {
		return eqds.Data{}, false
	}
	s.phase = Closed
	s.forgetSent()
	return eqds.Data{Flags: eqds.FlagRST, Next: eqds.NextNothing, Seq: s.nxt, Target: s.told, Sender: s.id}, true
}

// abandonPackets gives up all packets.
func (s *Sender[P]) abandonPackets() {
	for i := range s.sent.Len() {
		if r := s.sent.At(i); r.fate != acked {
			s.done(r.p, Outcome{Path: r.path, Tries: r.tries})
		}
	}
	s.forgetSent()
	for s.queue.Len() > 0 {
		s.done(s.queue.Pop().p, Outcome{})
	}
	s.queued = 0
}

// baseRTO returns the retransmission timeout without backoff.
func (s *Sender[P]) baseRTO() units.Time {
	return min(max(s.config.RTO, s.srtt+4*s.rttvar), s.config.MaxRTO)
}

// backedOffRTO returns that timeout after some doublings.
func (s *Sender[P]) backedOffRTO(doublings uint8) units.Time {
	t := s.baseRTO()
	for ; doublings > 0 && t < s.config.MaxRTO; doublings-- {
		t *= 2
	}
	return min(t, s.config.MaxRTO)
}

// headPacket returns the packet that goes next if there is credit; size is 0 if there is none. Lost
// packets go before new ones.
func (s *Sender[P]) headPacket() (size units.Bytes, resent bool) {
	if s.lost > 0 {
		return units.Bytes(s.firstMissing().size), true
	}
	if s.queue.Len() == 0 || s.sent.Len() == maxInFlight {
		return 0, false
	}
	size = units.Bytes(s.queue.First().size)
	if s.sent.Len() > 0 && s.span+size > s.config.Window {
		return 0, false
	}
	return size, false
}

// firstMissing returns the first packet to be sent again, which must exist.
func (s *Sender[P]) firstMissing() *record[P] {
	for s.sent.At(s.lostAt).fate != missing {
		s.lostAt++
	}
	return s.sent.At(s.lostAt)
}

// RequestLen is what NextSize returns for an RTS: the frame has headers only, and is not longer
// than the shortest frame.
const RequestLen units.Bytes = 60

// NextSize returns the size of what Next would return now; 0 if there is nothing.
func (s *Sender[P]) NextSize() units.Bytes { return s.ready }

// Next returns the header of the packet that leaves now, and whether there is one. carry means
// that p is its payload; otherwise it has only the header. The packet stays the sender's until
// done is called: the caller sends a copy.
func (s *Sender[P]) Next(now units.Time) (h eqds.Data, p P, carry, ok bool) {
	size, resent := s.headPacket()
	if size == 0 || size > s.credit {
		if !s.asking {
			return h, p, false, false
		}
		return s.makeRTS(now), p, false, true
	}
	var r *record[P]
	if resent {
		r = s.firstMissing()
		h.Seq = s.una + uint16(s.lostAt)
		s.lost--
		s.again -= size
		s.counted.Resent++
	} else {
		s.sent.Push(record[P]{item: s.queue.Pop()})
		r = s.sent.Last()
		h.Seq = s.nxt
		s.nxt++
		s.queued -= size
		s.span += size
	}
	s.counted.Packets++
	s.credit -= size
	s.inFlight++
	r.fate, r.at, r.path = inFlight, now, s.paths.nextPath(s.rand)
	if r.tries < 255 {
		r.tries++
	}
	h.Path = r.path
	s.fillHeader(now, &h)
	if s.rtoAt == units.Never {
		s.rtoAt = now + s.backedOffRTO(s.backoff)
	}
	s.checkCredit(now)
	return h, r.p, true, true
}

// makeRTS returns an RTS.
func (s *Sender[P]) makeRTS(now units.Time) eqds.Data {
	h := eqds.Data{Flags: eqds.FlagRTS, Next: eqds.NextNothing, Seq: s.nxt, Path: s.paths.nextPath(s.rand)}
	if s.told != s.pull {
		// PULLs are lost, or the packets that asked for them.
		s.timeouts++
		s.waits = min(s.waits+1, maxDoublings)
	}
	s.fillHeader(now, &h)
	s.counted.Requests++
	s.checkCredit(now)
	return h
}

// fillHeader fills in the fields common to all packets.
func (s *Sender[P]) fillHeader(now units.Time, h *eqds.Data) {
	h.Sender = s.id
	if s.phase == SynSent {
		h.Flags |= eqds.FlagSYN
	}
	if t := s.pullTarget(); int16(t-s.told) > 0 {
		s.told = t
	}
	h.Target = s.told
	s.asking, s.askAt = false, units.Never
}

// pullTarget returns the pull number that the sender wants to reach (§5). A missing part of an MTU
// is rounded up to a whole one if that fits into the window.
func (s *Sender[P]) pullTarget() uint16 {
	w, mtu := s.config.Window, s.config.MTU
	want := min(s.queued+s.again, w) - s.credit
	if want <= 0 {
		return s.pull
	}
	return s.pull + uint16(min((want+mtu-1)/mtu, (w-s.credit)/mtu))
}

// pullDeadline returns until when to wait for PULLs: longer while the receiver has others to serve.
func (s *Sender[P]) pullDeadline(now units.Time) units.Time {
	return max(now+s.backedOffRTO(s.waits), min(s.busy, now+s.config.MaxRTO))
}

// checkCredit checks whether credit is missing. Every input ends here.
func (s *Sender[P]) checkCredit(now units.Time) {
	size, _ := s.headPacket()
	switch {
	case size == 0 || size <= s.credit:
		s.asking, s.askAt = false, units.Never
		s.ready = size
		return
	case s.told == s.pull:
		s.asking = true // nothing more will come by itself
	case !s.asking && s.askAt == units.Never:
		s.askAt = s.pullDeadline(now)
	}
	if s.ready = 0; s.asking {
		s.ready = RequestLen
	}
}

// NextTimer returns when OnTimer is due, or units.Never.
func (s *Sender[P]) NextTimer() units.Time {
	if s.IsIdle() {
		return units.Never
	}
	return min(s.rtoAt, s.askAt)
}
