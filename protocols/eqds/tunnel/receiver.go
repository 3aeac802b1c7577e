package tunnel

import (
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
)

// Receipts counts what has happened at a receiver.
type Receipts struct {
	Packets    uint64 // delivered
	Trimmed    uint64 // arrived without payload
	Copies     uint64 // had arrived before
	Overtaken  uint64 // arrived before others with lower numbers
	Refused    uint64 // did not fit into the reorder queue, or were beyond all credit
	Holes      uint64 // packets that did not arrive in time and were skipped
	Opened     uint64 // incarnations
	Mismatches uint64 // packets of other incarnations
	Requests   uint64 // RTS
	Ignored    uint64 // of them, too soon after others
	Pulls      uint64
	Holds      uint64 // times that the sender was held back
}

// slot is a place in the reorder queue.
type slot[P any] struct {
	p    P
	size uint32
	full bool
}

// Receiver is the receiving end of a tunnel (Fig. 27): it is closed or open. P is the type of
// the packets that the tunnel carries. Inputs come in time order.
type Receiver[P any] struct {
	Owner any // set by the receiver's owner to find its own state; not used here

	config  *Config
	pacer   *pull.Pacer[*Receiver[P]]
	deliver func(p P)
	entry   pull.Sender[*Receiver[P]]
	id      uint8
	class   uint8

	open   bool
	synced bool // the sender knows that it is open: it has left out SYN
	epoch  eqds.Epoch
	next   uint16     // to be delivered next
	begun  units.Time // when the incarnation began
	since  uint16     // how many numbers precede it in this incarnation, up to eqds.Span

	late   []slot[P] // by number, modulo a power of two
	count  int       // in late
	kept   units.Bytes
	holeAt units.Time // when to give up on the packets before them; units.Never if empty

	allowed    units.Bytes // what the sender may send while the link is busy
	unanswered units.Bytes // credit that has brought no data yet
	holdAt     units.Time  // when a hold ends; units.Never without one
	holdTime   units.Time  // length of the last hold
	answered   units.Time  // when an RTS was last answered; -1 if never

	waiting eqds.Control // acknowledgement that waits for a PULL to share a packet with
	waitsTo units.Time   // when it is sent alone; units.Never without one
	acked   uint16       // next, as last told to the sender

	used units.Time

	counted Receipts
}

// NewReceiver returns the receiving end, closed, for the tunnel of a host's EQIF with number
// id. class is for the policy of the pacer; deliver is given the packets that arrive. c must
// have passed Check and is shared, not copied.
func NewReceiver[P any](c *Config, pacer *pull.Pacer[*Receiver[P]], id, class uint8, deliver func(p P)) *Receiver[P] {
	return &Receiver[P]{
		config: c, pacer: pacer, deliver: deliver, id: id, class: class,
		allowed: c.Window, holeAt: units.Never, holdAt: units.Never, waitsTo: units.Never, answered: -1,
	}
}

// Open reports whether the tunnel is set up.
func (r *Receiver[P]) Open() bool { return r.open }

// Epoch returns the epoch of the incarnation, if the receiver is Open.
func (r *Receiver[P]) Epoch() eqds.Epoch { return r.epoch }

// ReorderQueue returns how much waits for packets with lower numbers.
func (r *Receiver[P]) ReorderQueue() (packets int, bytes units.Bytes) { return r.count, r.kept }

// LastUsed returns when the last packet arrived.
func (r *Receiver[P]) LastUsed() units.Time { return r.used }

// WantedMTUs returns how many MTUs of credit the sender still wants.
func (r *Receiver[P]) WantedMTUs() int { return r.entry.WantedMTUs() }

// Receipts returns the receiver's counters.
func (r *Receiver[P]) Receipts() Receipts { return r.counted }

// Answer is a receiver's reaction to a packet.
type Answer struct {
	Control eqds.Control // to be sent, if Send is set
	Send    bool
	Kept    bool // the receiver keeps or has delivered the payload; otherwise it is the caller's
}

// ReceiveData handles a packet of the sender: its header, its payload and its frame size before it was
// trimmed. p has no meaning if the packet is trimmed or carries nothing.
func (r *Receiver[P]) ReceiveData(now units.Time, h *eqds.Data, p P, size units.Bytes, trimmed bool) (a Answer) {
	quiet := now-r.used > r.config.MaxRTO
	r.used = now
	if h.Flags.Has(eqds.FlagRST) {
		if r.open && h.Seq-r.next < eqds.Span {
			r.shutTunnel()
		}
		return a
	}
	if !r.checkEpoch(now, h, &a) {
		return a
	}
	// A sender repeats a SYN packet only while it has no answer. If one is repeated later, the
	// sender has started over with the same epoch.
	ahead := h.Seq - r.next
	again := ahead >= eqds.Span && h.Flags.Has(eqds.FlagSYN) && (r.synced || quiet)
	if again || ahead >= eqds.Span && -ahead > eqds.Span {
		r.counted.Mismatches++
		a.Send = true
		if h.Flags.Has(eqds.FlagSYN) {
			r.synced = true // so that its other SYN packets get the same answer
			a.Control = r.makeAdvertisement()
		} else {
			a.Control = r.makeRST(h)
		}
		return a
	}
	if ahead >= eqds.Span && -ahead > r.since {
		// A late packet of the previous incarnation: its pull target does not belong to this
		// one. If such packets keep coming, their sender is alive, and this incarnation is not
		// its own.
		r.counted.Mismatches++
		r.synced = r.synced || now-r.begun > r.config.RTO
		return a
	}
	r.synced = r.synced || !h.Flags.Has(eqds.FlagSYN)
	r.pacer.RaiseTarget(&r.entry, h.Target)
	if h.Flags.Has(eqds.FlagRTS) {
		r.answerRTS(now, &a)
	} else {
		r.placeData(now, h, p, size, trimmed, &a)
	}
	switch {
	case !a.Send:
		return a
	case r.pacer.HeadSender(now) == &r.entry:
		r.pacer.Next(now)
		r.announceCredit(now, &a.Control) // one packet says both
		return a
	case r.config.AckDelay > 0 && (r.entry.IsActive() || r.delaysAck(&a)):
		r.delayAck(now, &a)
	}
	if a.Send {
		r.fillCredit(&a.Control)
	}
	return a
}

// checkEpoch compares epochs (Appendix A), and reports whether the packet belongs to this
// incarnation, which it may have begun.
func (r *Receiver[P]) checkEpoch(now units.Time, h *eqds.Data, a *Answer) bool {
	syn, e := h.Flags.Has(eqds.FlagSYN), eqds.EpochOf(h.Seq)
	switch {
	case !syn && r.open, syn && r.open && e == r.epoch:
		return true
	case !syn:
		r.counted.Mismatches++
		a.Control, a.Send = r.makeRST(h), true
		return false
	case r.open && !e.After(r.epoch):
		r.counted.Mismatches++
		a.Control, a.Send = r.makeAdvertisement(), true
		return false
	}
	r.deliverAll()
	r.open, r.synced, r.epoch, r.next, r.waitsTo = true, false, e, e.First(), units.Never
	r.begun, r.since, r.acked = now, 0, r.next
	r.pacer.JoinSender(&r.entry, r, r.class, r.config.windowMTUs())
	r.counted.Opened++
	// A new incarnation does not make a sender more honest: accounts and holds continue.
	if r.holdAt != units.Never {
		r.pacer.HoldSender(&r.entry)
	}
	return true
}

// delaysAck reports whether the acknowledgement of a packet waits for more packets although no
// PULL is to follow. A sender that does not know yet that the tunnel is open is answered at
// once.
func (r *Receiver[P]) delaysAck(a *Answer) bool {
	return a.Kept && r.synced && a.Control.Flags.Has(eqds.FlagACK) && int(r.next-r.acked) < r.config.Credit
}

// fillCredit fills in the credit of a control packet that leaves now, and records what it
// acknowledges. With PULLs of one MTU it does not record that: another control packet then
// rarely covers an acknowledgement that waits.
func (r *Receiver[P]) fillCredit(c *eqds.Control) {
	c.Pull, c.Busy = r.entry.PullNumber(), eqds.EncodeBusy(r.pacer.BusyTime())
	if r.config.Credit == 1 || !c.Flags.Has(eqds.FlagACK) {
		return
	}
	r.acked = c.Ack + 1
	if ackCovers(c, &r.waiting) {
		r.waitsTo = units.Never
	}
}

// ackCovers reports whether a control packet acknowledges everything that another one does.
func ackCovers(c, other *eqds.Control) bool {
	return c.Flags.Has(eqds.FlagACK) && !other.Flags.Has(eqds.FlagNACK) && int16(c.Ack-other.Ack) >= 0
}

// delayAck makes an acknowledgement wait for a PULL. If another one with different content waits
// already, that one is sent instead.
func (r *Receiver[P]) delayAck(now units.Time, a *Answer) {
	if !a.Control.Flags.ReportsOnPacket() || a.Control.Flags.Has(eqds.FlagNACK) {
		return
	}
	before, waited := r.waiting, r.waitsTo != units.Never
	r.waiting = a.Control
	switch {
	case !waited:
		r.waitsTo = now + r.config.AckDelay
		a.Send = false
	case before.Flags.Has(eqds.FlagACK) && a.Control.Flags.Has(eqds.FlagACK), r.config.Credit > 1 && ackCovers(&a.Control, &before):
		a.Send = false // the new one says both
	default:
		r.waitsTo = now + r.config.AckDelay
		a.Control = before
	}
}

// TakeDelayedAck returns the acknowledgement that has waited long enough for a PULL and must be sent
// now; false if there is none.
func (r *Receiver[P]) TakeDelayedAck(now units.Time) (c eqds.Control, ok bool) {
	if r.waitsTo > now {
		return c, false
	}
	r.waitsTo = units.Never
	c = r.waiting
	r.fillCredit(&c)
	return c, true
}

// makeRST returns the RST for a packet of another incarnation.
func (r *Receiver[P]) makeRST(h *eqds.Data) eqds.Control {
	return eqds.Control{Flags: eqds.FlagControl | eqds.FlagRST, Sender: r.id, Ack: h.Seq}
}

// makeAdvertisement returns the control packet that announces the epoch.
func (r *Receiver[P]) makeAdvertisement() eqds.Control {
	return eqds.Control{Flags: eqds.FlagControl | eqds.FlagSYN, Sender: r.id, Ack: r.epoch.First()}
}

// answerRTS answers an RTS with the highest pull number, unless it follows another too soon.
func (r *Receiver[P]) answerRTS(now units.Time, a *Answer) {
	r.counted.Requests++
	if r.answered >= 0 && now-r.answered < r.config.RTO/2 {
		r.counted.Ignored++
		return
	}
	r.answered = now
	a.Control, a.Send = r.makeControl(), true
	a.Control.Flags |= eqds.FlagPULL
}

// makeControl returns what all control packets say, except what leaves fills in: how far packets
// have arrived in order.
func (r *Receiver[P]) makeControl() eqds.Control {
	c := eqds.Control{Flags: eqds.FlagControl, Sender: r.id, Ack: r.epoch.First()}
	if !r.synced {
		c.Flags |= eqds.FlagSYN
	}
	if r.synced || r.next != r.epoch.First() {
		c.Flags |= eqds.FlagACK
		c.Ack = r.next - 1
	}
	return c
}

// setVerdict sets the answer to a packet that is not acknowledged with others.
func (r *Receiver[P]) setVerdict(a *Answer, seq uint16, verdict eqds.Flags) {
	a.Control, a.Send = r.makeControl(), true
	a.Control.Flags = a.Control.Flags&^eqds.FlagACK | verdict
	a.Control.Ack = seq
}

// placeData delivers, queues or refuses a data packet.
func (r *Receiver[P]) placeData(now units.Time, h *eqds.Data, p P, size units.Bytes, trimmed bool, a *Answer) {
	ahead := h.Seq - r.next
	if ahead >= eqds.Span {
		r.counted.Copies++
		a.Control, a.Send = r.makeControl(), true
		return
	}
	if ahead > 0 && r.isQueued(h.Seq) {
		r.counted.Copies++
		r.setVerdict(a, h.Seq, eqds.FlagSACK)
		return
	}
	beyond := !r.chargeCredit(size)
	switch {
	case trimmed:
		r.counted.Trimmed++
		r.setVerdict(a, h.Seq, eqds.FlagNACK)
	case beyond || ahead >= maxInFlight || ahead > 0 && r.kept+size > r.config.Window:
		r.counted.Refused++
		r.setVerdict(a, h.Seq, eqds.FlagNACK)
	case ahead > 0:
		r.counted.Overtaken++
		r.queueForReorder(now, h.Seq, p, size)
		a.Kept = true
		r.setVerdict(a, h.Seq, eqds.FlagSACK)
	default:
		a.Kept = true
		r.counted.Packets++
		r.advanceNext()
		r.deliver(p)
		r.deliverInOrder(now)
		a.Control, a.Send = r.makeControl(), true
	}
}

// TakePull returns the packet that announces the credit that the pacer has just given the tunnel.
func (r *Receiver[P]) TakePull(now units.Time) eqds.Control {
	c := r.makeControl()
	if r.waitsTo != units.Never {
		if r.waiting.Flags.Has(eqds.FlagSACK) {
			c = r.waiting
		}
		r.waitsTo = units.Never
	}
	r.announceCredit(now, &c)
	return c
}

// announceCredit announces that credit in a packet for the sender.
func (r *Receiver[P]) announceCredit(now units.Time, c *eqds.Control) {
	r.counted.Pulls++
	given := units.Bytes(r.entry.LastGrant()) * r.config.MTU
	r.allowed = min(r.allowed+given, 2*r.config.Window)
	r.unanswered += given
	c.Flags |= eqds.FlagPULL
	r.fillCredit(c)
	if r.unanswered > r.config.Window+r.config.MTU {
		r.denyCredit(now)
	}
}

// DropState drops all state, as if the receiver were out of memory. What waits in the reorder
// queue is delivered.
func (r *Receiver[P]) DropState() {
	r.shutTunnel()
	r.pacer.JoinSender(&r.entry, r, r.class, r.config.windowMTUs())
	r.allowed, r.unanswered, r.holdTime, r.answered, r.holdAt = r.config.Window, 0, 0, -1, units.Never
}

// shutTunnel closes the tunnel, and keeps the accounts of its sender.
func (r *Receiver[P]) shutTunnel() {
	r.deliverAll()
	r.pacer.RemoveSender(&r.entry)
	r.open, r.waitsTo, r.late = false, units.Never, nil
}

// Close calls DropState and returns the RST that tells the sender; nothing depends on whether it
// arrives. It returns false if the receiver is already closed.
func (r *Receiver[P]) Close() (c eqds.Control, ok bool) {
	if !r.open {
		return c, false
	}
	next := r.next
	r.DropState()
	return eqds.Control{Flags: eqds.FlagControl | eqds.FlagRST, Sender: r.id, Ack: next}, true
}

// NextTimer returns when OnTimer is due, or units.Never.
func (r *Receiver[P]) NextTimer() units.Time { return min(r.holeAt, r.holdAt, r.waitsTo) }

// OnTimer does what is due by now, except for an acknowledgement, which TakeDelayedAck returns.
func (r *Receiver[P]) OnTimer(now units.Time) {
	if r.holeAt <= now {
		r.skipHole(now)
	}
	if r.holdAt <= now {
		r.releaseSender()
	}
}
