// Package credit implements credit-based flow control of a link, as in InfiniBand (IBTA
// Architecture Specification, volume 1, §7.9): the sender of a link begins a packet only
// when the receiver has announced room for it. Both count blocks of 64 bytes since the link
// came up. The sender reports how much it has sent (FCTBS, flow control total blocks sent),
// the receiver up to what it may send (FCCL, flow control credit limit).
//
// As these are totals and not differences, a lost, late or duplicate update does no harm
// beyond the next one. Lost data takes its credit away only until the receiver learns how
// much was sent.
//
// The package is pure: the port reports arrivals and departures, and sends the updates. It
// differs from InfiniBand in two points: counters have 16 bits instead of 12, so that a
// buffer may have 2 MiB instead of 128 KiB; and a link on which all credit has returned is
// silent, where InfiniBand continues with updates.
package credit

import "github.com/weftlab/weft/sim/units"

// Block is the unit of credit (IBTA volume 1, §7.9.4.2: credits are for 64 bytes).
const Block units.Bytes = 64

// MaxBuffer is the largest buffer for which counter comparisons are unambiguous.
const MaxBuffer = (1<<15 - 1) * Block

// SymbolTimes is the maximum time between updates of a side while credit is outstanding, in
// symbol times (IBTA volume 1, §7.9.4.1). A symbol counts as a byte at the rate of the link.
const SymbolTimes = 65536

// Config is what a class of a port offers to its sender.
type Config struct {
	// Buffer is the room for packets that came in through the port and wait, at most
	// MaxBuffer. A partial block is not offered.
	Buffer units.Bytes
	// Update is the amount that must leave before the sender gets an immediate update.
	Update units.Bytes
	// Period is the time between a sender's reports of how much it has sent, each of which
	// is answered, while not all of its credit has returned.
	Period units.Time
}

// Configs has the configs of a port by priority, nil for a class without credits.
type Configs [8]*Config

// Counter counts blocks, modulo 1<<16.
type Counter uint16

// distanceFrom returns how far c is beyond d. It is negative if c is before d.
func (c Counter) distanceFrom(d Counter) int { return int(int16(c - d)) }

// BlocksOf returns the number of blocks that a packet of n bytes takes.
func BlocksOf(n units.Bytes) Counter { return Counter((n + Block - 1) / Block) }

// wholeBlocks returns the number of whole blocks in n bytes.
func wholeBlocks(n units.Bytes) Counter { return Counter(n / Block) }

// Sender is the sending side of one class of a link.
type Sender struct {
	buffer  Counter
	sent    Counter // FCTBS
	limit   Counter // FCCL
	waiting bool
	since   units.Time // waiting
	spent   Spent
}

// Spent has the statistics of a Sender.
type Spent struct {
	Buffer    units.Bytes // of the peer
	Available units.Bytes // credit at this moment; negative if the peer has taken some back
	Waiting   bool        // a packet waits for credit
	Time      units.Time  // total time of waits
	Waits     uint64      // number of waits
	Updates   uint64      // from the peer
}

// NewSender returns the sender to a peer that offers c. The link has just come up: the
// sender has credit for the whole buffer.
func NewSender(c *Config) *Sender {
	b := wholeBlocks(c.Buffer)
	return &Sender{buffer: b, limit: b}
}

// creditFor returns the credit that a packet of n bytes takes. It is at most the whole buffer, so
// that a packet that is too long for its link, which drops it, does not wait forever.
func (s *Sender) creditFor(n units.Bytes) Counter { return min(BlocksOf(n), s.buffer) }

// HasCreditFor reports whether there is credit for a packet of n bytes.
func (s *Sender) HasCreditFor(n units.Bytes) bool {
	return s.limit.distanceFrom(s.sent+s.creditFor(n)) >= 0
}

// SpendCredit takes the credit of a packet of n bytes, which begins to leave.
func (s *Sender) SpendCredit(n units.Bytes) { s.sent += s.creditFor(n) }

// SentBlocks returns the count to report to the peer: everything that has begun to leave (FCTBS).
func (s *Sender) SentBlocks() Counter { return s.sent }

// ApplyLimit applies an update from the peer (FCCL). The latest update counts, even if it takes
// credit back.
func (s *Sender) ApplyLimit(c Counter) {
	s.limit = c
	s.spent.Updates++
}

// AllReturned reports whether all credit has returned: the peer holds nothing, and knows of
// everything that was sent.
func (s *Sender) AllReturned() bool { return s.limit-s.sent == s.buffer }

// Wait records whether a packet waits for credit from at on. If none does, any wait ended
// then.
func (s *Sender) Wait(at units.Time, waits bool) {
	if waits == s.waiting {
		return
	}
	s.waiting = waits
	if waits {
		s.since = at
		s.spent.Waits++
		return
	}
	if at > s.since {
		s.spent.Time += at - s.since
	} else {
		s.spent.Waits-- // credit came before the previous packet had left
	}
}

// WaitingSince returns since when a packet has been waiting for credit, and whether one
// waits.
func (s *Sender) WaitingSince() (since units.Time, waits bool) { return s.since, s.waiting }

// Statistics returns the statistics up to now.
func (s *Sender) Statistics(now units.Time) Spent {
	x := s.spent
	x.Buffer = units.Bytes(s.buffer) * Block
	x.Available = units.Bytes(s.limit.distanceFrom(s.sent)) * Block
	if s.waiting && now >= s.since {
		x.Waiting = true
		x.Time += now - s.since
	} else if s.waiting {
		x.Waits--
	}
	return x
}

// Receiver is the receiving side of one class of a link, which has the buffer. The zero
// Receiver offers nothing and counts nothing.
type Receiver struct {
	received Counter // ABR, adjusted blocks received
	buffer   Counter
	told     Counter // the last FCCL
	update   Counter
	held     uint32 // blocks
	given    Given
}

// Given has the statistics of a Receiver.
type Given struct {
	Buffer  units.Bytes
	Held    units.Bytes // in whole blocks
	Peak    units.Bytes // maximum of Held
	Updates uint64      // to the peer
	Lost    uint64      // blocks that were sent but did not arrive
	Surplus uint64      // blocks that arrived but were not sent: copies that the link made
}

// NewReceiver returns the receiver of a link that has just come up.
func NewReceiver(c *Config) Receiver {
	b := wholeBlocks(c.Buffer)
	return Receiver{buffer: b, told: b, update: max(wholeBlocks(c.Update), 1)}
}

// CountReceived counts a packet of n bytes that has come in. It is called before RecordWaiting if the packet
// has to wait. The peer counts the same for it (Sender.SpendCredit).
func (r *Receiver) CountReceived(n units.Bytes) { r.received += min(BlocksOf(n), r.buffer) }

// RecordWaiting records that a packet of n bytes that came in through the link has to wait.
func (r *Receiver) RecordWaiting(n units.Bytes) {
	r.held += uint32(BlocksOf(n))
	r.given.Peak = max(r.given.Peak, units.Bytes(r.held)*Block)
}

// FreePacket records that a packet no longer waits.
func (r *Receiver) FreePacket(n units.Bytes) { r.held -= uint32(BlocksOf(n)) }

// UpdateIsDue reports whether enough has left, or has come in without waiting, for an immediate
// update of the peer.
func (r *Receiver) UpdateIsDue() bool { return r.creditLimit().distanceFrom(r.told) >= int(r.update) }

// creditLimit returns FCCL: the blocks that have come in plus the free room. Copies of a packet to
// several ports may hold more than the buffer; then no more is offered.
func (r *Receiver) creditLimit() Counter {
	if r.held >= uint32(r.buffer) {
		return r.received
	}
	return r.received + r.buffer - Counter(r.held)
}

// CreditUpdate returns the update to send now (FCCL).
func (r *Receiver) CreditUpdate() Counter {
	r.told = r.creditLimit()
	r.given.Updates++
	return r.told
}

// ApplySent applies the peer's count of what it has sent (FCTBS). Missing blocks were lost; the
// peer did not send blocks in excess of its count.
func (r *Receiver) ApplySent(sent Counter) {
	if d := sent.distanceFrom(r.received); d > 0 {
		r.given.Lost += uint64(d)
	} else {
		r.given.Surplus += uint64(-d)
	}
	r.received = sent
}

// Statistics returns the statistics so far.
func (r *Receiver) Statistics() Given {
	x := r.given
	x.Buffer, x.Held = units.Bytes(r.buffer)*Block, units.Bytes(r.held)*Block
	return x
}
