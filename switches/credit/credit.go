// Package credit is flow control of a link by credits, as InfiniBand has it (IBTA
// Architecture Specification, volume 1, §7.9): the sender of a link begins a packet only
// when the receiver has said that there is room for it. Both count blocks of 64 bytes
// since the link came up. The sender tells what it has sent (FCTBS, flow control total
// blocks sent), the receiver up to what it may send (FCCL, flow control credit limit).
//
// As these are totals and not differences, an update that is lost, late or doubled does no
// harm beyond the next one. Data that is lost takes its credit along only until the
// receiver hears how much was sent.
//
// The package is pure: it is told what comes and goes, and the port that it serves sends
// the updates. It differs from InfiniBand in this: counters have 16 bits in place of 12, so
// that a buffer may have 2 MiB in place of 128 KiB; and a link on which all credit is back
// says nothing, where InfiniBand goes on with updates.
package credit

import "github.com/weftlab/weft/sim/units"

// Block is the unit of credit (IBTA volume 1, §7.9.4.2: credits are for 64 bytes).
const Block units.Bytes = 64

// MaxBuffer is the largest buffer of which the counters can tell before from behind.
const MaxBuffer = (1<<15 - 1) * Block

// SymbolTimes is how often each side speaks at least while credit is out, in times of one
// symbol (IBTA volume 1, §7.9.4.1). A symbol is taken as a byte at the rate of the link.
const SymbolTimes = 65536

// Config is what a class of a port offers to its sender.
type Config struct {
	// Buffer is what the port has for what came in by it and waits, at most MaxBuffer. What
	// is not a whole block is not offered.
	Buffer units.Bytes
	// Update is how much has to have left before the sender is told at once.
	Update units.Bytes
	// Period is how often a sender tells what it has sent, and is answered, while not all of
	// its credit is back.
	Period units.Time
}

// Configs are the configs of a port by priority, nil for a class without credits.
type Configs [8]*Config

// Counter counts blocks, modulo 1<<16.
type Counter uint16

// past is how far c is beyond d, negative when it is before it.
func (c Counter) past(d Counter) int { return int(int16(c - d)) }

// Blocks is how many blocks a packet of n bytes takes.
func Blocks(n units.Bytes) Counter { return Counter((n + Block - 1) / Block) }

// whole is how many whole blocks n bytes have.
func whole(n units.Bytes) Counter { return Counter(n / Block) }

// Sender is the sending side of one class of a link.
type Sender struct {
	buffer  Counter
	sent    Counter // FCTBS
	limit   Counter // FCCL
	waiting bool
	since   units.Time // waiting
	spent   Spent
}

// Spent is what a Sender has been through.
type Spent struct {
	Buffer    units.Bytes // of the peer
	Available units.Bytes // credit at this moment; negative if the peer has taken some back
	Waiting   bool        // a packet waits for credit
	Time      units.Time  // altogether in which one did
	Waits     uint64      // times that one had to
	Updates   uint64      // from the peer
}

// NewSender makes the sender to a peer that offers c. The link has come up: the sender has
// the credit of the whole buffer.
func NewSender(c *Config) *Sender {
	b := whole(c.Buffer)
	return &Sender{buffer: b, limit: b}
}

// cost is what a packet of n bytes takes: at most the whole buffer, so that one that is too
// long for its link, which the link drops, does not wait for ever.
func (s *Sender) cost(n units.Bytes) Counter { return min(Blocks(n), s.buffer) }

// Affords tells whether there is credit for a packet of n bytes.
func (s *Sender) Affords(n units.Bytes) bool { return s.limit.past(s.sent+s.cost(n)) >= 0 }

// Spend takes the credit of a packet of n bytes, which begins to leave.
func (s *Sender) Spend(n units.Bytes) { s.sent += s.cost(n) }

// Sent is what the peer is to be told: all that has begun to leave (FCTBS).
func (s *Sender) Sent() Counter { return s.sent }

// Limit takes an update from the peer (FCCL). The last word counts, also when it takes
// credit back.
func (s *Sender) Limit(c Counter) {
	s.limit = c
	s.spent.Updates++
}

// Settled tells whether all credit is there: the peer holds nothing, and knows of all that
// was sent.
func (s *Sender) Settled() bool { return s.limit-s.sent == s.buffer }

// Wait is told whether a packet waits for credit from at on. If none does, a wait that had
// begun ended at at.
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
		s.spent.Waits-- // credit came before the packet in front was out
	}
}

// WaitingSince tells since when a packet has been waiting for credit.
func (s *Sender) WaitingSince() (since units.Time, waits bool) { return s.since, s.waiting }

// Spent tells what has happened up to now.
func (s *Sender) Spent(now units.Time) Spent {
	x := s.spent
	x.Buffer = units.Bytes(s.buffer) * Block
	x.Available = units.Bytes(s.limit.past(s.sent)) * Block
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

// Given is what a Receiver has been through.
type Given struct {
	Buffer  units.Bytes
	Held    units.Bytes // in whole blocks
	Peak    units.Bytes // the most that was held
	Updates uint64      // to the peer
	Lost    uint64      // blocks that were sent and have not come
	Surplus uint64      // blocks that came and were not sent: copies that the link made
}

// NewReceiver makes the receiver of a link that has come up.
func NewReceiver(c *Config) Receiver {
	b := whole(c.Buffer)
	return Receiver{buffer: b, told: b, update: max(whole(c.Update), 1)}
}

// Came counts a packet of n bytes that has come in, before Hold if it has to wait. The peer
// counts the same for it (Sender.Spend).
func (r *Receiver) Came(n units.Bytes) { r.received += min(Blocks(n), r.buffer) }

// Hold is told of a packet of n bytes that came in by the link and has to wait.
func (r *Receiver) Hold(n units.Bytes) {
	r.held += uint32(Blocks(n))
	r.given.Peak = max(r.given.Peak, units.Bytes(r.held)*Block)
}

// Free is told of one that has ceased to wait.
func (r *Receiver) Free(n units.Bytes) { r.held -= uint32(Blocks(n)) }

// Due tells whether so much has left, or has come and did not have to wait, that the peer is
// to be told at once.
func (r *Receiver) Due() bool { return r.limit().past(r.told) >= int(r.update) }

// limit is FCCL: what has come in and what there is room for. Copies of a packet that goes
// to several ports may hold more than the buffer; nothing more is offered then.
func (r *Receiver) limit() Counter {
	if r.held >= uint32(r.buffer) {
		return r.received
	}
	return r.received + r.buffer - Counter(r.held)
}

// Tell gives the update to send now (FCCL).
func (r *Receiver) Tell() Counter {
	r.told = r.limit()
	r.given.Updates++
	return r.told
}

// Heard takes the peer's count of what it has sent (FCTBS). What is missing of that was
// lost; the peer did not send what has come in excess of it.
func (r *Receiver) Heard(sent Counter) {
	if d := sent.past(r.received); d > 0 {
		r.given.Lost += uint64(d)
	} else {
		r.given.Surplus += uint64(-d)
	}
	r.received = sent
}

// Given tells what has happened so far.
func (r *Receiver) Given() Given {
	x := r.given
	x.Buffer, x.Held = units.Bytes(r.buffer)*Block, units.Bytes(r.held)*Block
	return x
}
