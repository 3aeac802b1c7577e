package tunnel

import (
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
)

// Receipts count what a receiver has met.
type Receipts struct {
	Packets    uint64 // delivered
	Trimmed    uint64 // came without payload
	Copies     uint64 // had come before
	Overtaken  uint64 // came before others with lower numbers
	Refused    uint64 // did not fit into the reorder queue, or were beyond all credit
	Holes      uint64 // packets that did not come in time and were skipped
	Opened     uint64 // incarnations
	Mismatches uint64 // packets of other incarnations
	Requests   uint64 // RTS
	Ignored    uint64 // of them, too soon after others
	Pulls      uint64
	Holds      uint64 // times that the sender was held back
}

// slot is a place of the reorder queue.
type slot[P any] struct {
	p    P
	size uint32
	full bool
}

// Receiver is the receiving end of a tunnel (Fig. 27): it is closed or open. P is the packets
// that the tunnel carries. Inputs come in the order of time.
type Receiver[P any] struct {
	Owner any // set by the receiver's owner to find its own state; not used here

	config  *Config
	pacer   *pull.Pacer[*Receiver[P]]
	deliver func(p P)
	entry   pull.Sender[*Receiver[P]]
	id      uint8
	class   uint8

	open   bool
	synced bool // the sender knows that: it has left out SYN
	epoch  eqds.Epoch
	next   uint16     // that is delivered next
	begun  units.Time // when the incarnation began
	since  uint16     // how many came before it in this incarnation, up to eqds.Span

	late   []slot[P] // by number, modulo a power of two
	count  int       // in late
	kept   units.Bytes
	holeAt units.Time // when the first of them is waited for no more; units.Never without any

	allowed    units.Bytes // that the sender may send while the link is busy
	unanswered units.Bytes // credit that has brought nothing yet
	holdAt     units.Time  // when a hold ends; units.Never without
	patience   units.Time  // length of the last hold
	answered   units.Time  // when an RTS was answered last; -1 for never

	waiting eqds.Control // acknowledgement that waits for a PULL to go with
	waitsTo units.Time   // when it goes alone; units.Never without one
	acked   uint16       // next, as the sender was told last

	used units.Time

	counted Receipts
}

// NewReceiver makes the receiving end for the tunnel of a host's EQIF, whose number is id; it
// is closed. class is for the policy of the pacer, deliver is given what the tunnel brings.
// c has passed Check and is shared, not copied.
func NewReceiver[P any](c *Config, pacer *pull.Pacer[*Receiver[P]], id, class uint8, deliver func(p P)) *Receiver[P] {
	return &Receiver[P]{
		config: c, pacer: pacer, deliver: deliver, id: id, class: class,
		allowed: c.Window, holeAt: units.Never, holdAt: units.Never, waitsTo: units.Never, answered: -1,
	}
}

// Open tells whether the tunnel is set up.
func (r *Receiver[P]) Open() bool { return r.open }

// Epoch is that of the incarnation, if it is Open.
func (r *Receiver[P]) Epoch() eqds.Epoch { return r.epoch }

// Reorder is what waits for packets with lower numbers.
func (r *Receiver[P]) Reorder() (packets int, bytes units.Bytes) { return r.count, r.kept }

// Used is when the last packet came.
func (r *Receiver[P]) Used() units.Time { return r.used }

// Wanted is how many MTUs of credit the sender wants still.
func (r *Receiver[P]) Wanted() int { return r.entry.Demand() }

// Receipts are what the receiver has met.
func (r *Receiver[P]) Receipts() Receipts { return r.counted }

// Answer is what a receiver does with a packet.
type Answer struct {
	Control eqds.Control // to be sent, if Send is set
	Send    bool
	Kept    bool // the payload is the receiver's, or delivered; else it is the caller's
}

// Data takes a packet of the sender: its header, its payload and its size as a frame, before
// it was trimmed. p means nothing for one that is trimmed or carries nothing.
func (r *Receiver[P]) Data(now units.Time, h *eqds.Data, p P, size units.Bytes, trimmed bool) (a Answer) {
	quiet := now-r.used > r.config.MaxRTO
	r.used = now
	if h.Flags.Has(eqds.FlagRST) {
		if r.open && h.Seq-r.next < eqds.Span {
			r.shut()
		}
		return a
	}
	if !r.synchronise(now, h, &a) {
		return a
	}
	// A SYN packet that has come before is sent again while its sender has no answer, not
	// later: then the sender has started over with the same epoch.
	ahead := h.Seq - r.next
	again := ahead >= eqds.Span && h.Flags.Has(eqds.FlagSYN) && (r.synced || quiet)
	if again || ahead >= eqds.Span && -ahead > eqds.Span {
		r.counted.Mismatches++
		a.Send = true
		if h.Flags.Has(eqds.FlagSYN) {
			r.synced = true // all others of it are to be answered so
			a.Control = r.advertisement()
		} else {
			a.Control = r.refusal(h)
		}
		return a
	}
	if ahead >= eqds.Span && -ahead > r.since {
		// A late one of the incarnation before: its pull target is not of this one. If such
		// packets go on to come, their sender lives, and this incarnation is not its own.
		r.counted.Mismatches++
		r.synced = r.synced || now-r.begun > r.config.RTO
		return a
	}
	r.synced = r.synced || !h.Flags.Has(eqds.FlagSYN)
	r.pacer.Want(&r.entry, h.Target)
	if h.Flags.Has(eqds.FlagRTS) {
		r.request(now, &a)
	} else {
		r.place(now, h, p, size, trimmed, &a)
	}
	switch {
	case !a.Send:
		return a
	case r.pacer.Head(now) == &r.entry:
		r.pacer.Next(now)
		r.grant(now, &a.Control) // one packet says both
		return a
	case r.config.AckDelay > 0 && (r.entry.Active() || r.gathers(&a)):
		r.delay(now, &a)
	}
	if a.Send {
		r.leaves(&a.Control)
	}
	return a
}

// synchronise compares epochs (Appendix A), and tells whether the packet is of this
// incarnation, which it may have begun.
func (r *Receiver[P]) synchronise(now units.Time, h *eqds.Data, a *Answer) bool {
	syn, e := h.Flags.Has(eqds.FlagSYN), eqds.EpochOf(h.Seq)
	switch {
	case !syn && r.open, syn && r.open && e == r.epoch:
		return true
	case !syn:
		r.counted.Mismatches++
		a.Control, a.Send = r.refusal(h), true
		return false
	case r.open && !e.After(r.epoch):
		r.counted.Mismatches++
		a.Control, a.Send = r.advertisement(), true
		return false
	}
	r.release()
	r.open, r.synced, r.epoch, r.next, r.waitsTo = true, false, e, e.First(), units.Never
	r.begun, r.since, r.acked = now, 0, r.next
	r.pacer.Join(&r.entry, r, r.class, r.config.limit())
	r.counted.Opened++
	// A new incarnation makes nobody more honest: accounts and holds go on.
	if r.holdAt != units.Never {
		r.pacer.Hold(&r.entry)
	}
	return true
}

// gathers tells whether the acknowledgement of a packet waits for more packets, though no PULL
// is to come. A sender that does not know yet that the tunnel is open is answered at once.
func (r *Receiver[P]) gathers(a *Answer) bool {
	return a.Kept && r.synced && a.Control.Flags.Has(eqds.FlagACK) && int(r.next-r.acked) < r.config.Credit
}

// leaves says in a control packet that leaves now how much credit there is, and notes what it
// acknowledges. With PULLs of one MTU the latter changes nothing: an acknowledgement that waits
// is then seldom of what another one says.
func (r *Receiver[P]) leaves(c *eqds.Control) {
	c.Pull, c.Busy = r.entry.Number(), eqds.Busy(r.pacer.Busy())
	if r.config.Credit == 1 || !c.Flags.Has(eqds.FlagACK) {
		return
	}
	r.acked = c.Ack + 1
	if covers(c, &r.waiting) {
		r.waitsTo = units.Never
	}
}

// covers tells whether a control packet acknowledges all that another one does.
func covers(c, other *eqds.Control) bool {
	return c.Flags.Has(eqds.FlagACK) && !other.Flags.Has(eqds.FlagNACK) && int16(c.Ack-other.Ack) >= 0
}

// delay has an acknowledgement wait for a PULL. One that waited before and says something
// else goes in its place.
func (r *Receiver[P]) delay(now units.Time, a *Answer) {
	if !a.Control.Flags.Judges() || a.Control.Flags.Has(eqds.FlagNACK) {
		return
	}
	before, waited := r.waiting, r.waitsTo != units.Never
	r.waiting = a.Control
	switch {
	case !waited:
		r.waitsTo = now + r.config.AckDelay
		a.Send = false
	case before.Flags.Has(eqds.FlagACK) && a.Control.Flags.Has(eqds.FlagACK), r.config.Credit > 1 && covers(&a.Control, &before):
		a.Send = false // the new one says both
	default:
		r.waitsTo = now + r.config.AckDelay
		a.Control = before
	}
}

// Delayed is the acknowledgement that has waited for a PULL long enough and is to be sent
// now; false if there is none.
func (r *Receiver[P]) Delayed(now units.Time) (c eqds.Control, ok bool) {
	if r.waitsTo > now {
		return c, false
	}
	r.waitsTo = units.Never
	c = r.waiting
	r.leaves(&c)
	return c, true
}

// refusal is the RST for a packet of another incarnation.
func (r *Receiver[P]) refusal(h *eqds.Data) eqds.Control {
	return eqds.Control{Flags: eqds.FlagControl | eqds.FlagRST, Sender: r.id, Ack: h.Seq}
}

// advertisement tells the epoch.
func (r *Receiver[P]) advertisement() eqds.Control {
	return eqds.Control{Flags: eqds.FlagControl | eqds.FlagSYN, Sender: r.id, Ack: r.epoch.First()}
}

// request answers an RTS with the highest pull number, but a flood of them.
func (r *Receiver[P]) request(now units.Time, a *Answer) {
	r.counted.Requests++
	if r.answered >= 0 && now-r.answered < r.config.RTO/2 {
		r.counted.Ignored++
		return
	}
	r.answered = now
	a.Control, a.Send = r.control(), true
	a.Control.Flags |= eqds.FlagPULL
}

// control is what all control packets say, but for what leaves says: how far all has come.
func (r *Receiver[P]) control() eqds.Control {
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

// judge makes that the answer to a packet that is not acknowledged with others.
func (r *Receiver[P]) judge(a *Answer, seq uint16, verdict eqds.Flags) {
	a.Control, a.Send = r.control(), true
	a.Control.Flags = a.Control.Flags&^eqds.FlagACK | verdict
	a.Control.Ack = seq
}

// place puts a data packet in its place.
func (r *Receiver[P]) place(now units.Time, h *eqds.Data, p P, size units.Bytes, trimmed bool, a *Answer) {
	ahead := h.Seq - r.next
	if ahead >= eqds.Span {
		r.counted.Copies++
		a.Control, a.Send = r.control(), true
		return
	}
	if ahead > 0 && r.has(h.Seq) {
		r.counted.Copies++
		r.judge(a, h.Seq, eqds.FlagSACK)
		return
	}
	beyond := !r.charge(size)
	switch {
	case trimmed:
		r.counted.Trimmed++
		r.judge(a, h.Seq, eqds.FlagNACK)
	case beyond || ahead >= inFlight || ahead > 0 && r.kept+size > r.config.Window:
		r.counted.Refused++
		r.judge(a, h.Seq, eqds.FlagNACK)
	case ahead > 0:
		r.counted.Overtaken++
		r.keep(now, h.Seq, p, size)
		a.Kept = true
		r.judge(a, h.Seq, eqds.FlagSACK)
	default:
		a.Kept = true
		r.counted.Packets++
		r.advance()
		r.deliver(p)
		r.drain(now)
		a.Control, a.Send = r.control(), true
	}
}

// Pull makes the packet that tells the credit which the pacer has just given the tunnel.
func (r *Receiver[P]) Pull(now units.Time) eqds.Control {
	c := r.control()
	if r.waitsTo != units.Never {
		if r.waiting.Flags.Has(eqds.FlagSACK) {
			c = r.waiting
		}
		r.waitsTo = units.Never
	}
	r.grant(now, &c)
	return c
}

// grant tells that in a packet for the sender.
func (r *Receiver[P]) grant(now units.Time, c *eqds.Control) {
	r.counted.Pulls++
	given := units.Bytes(r.entry.Given()) * r.config.MTU
	r.allowed = min(r.allowed+given, 2*r.config.Window)
	r.unanswered += given
	c.Flags |= eqds.FlagPULL
	r.leaves(c)
	if r.unanswered > r.config.Window+r.config.MTU {
		r.hold(now)
	}
}

// Forget drops all state, as if the receiver were out of memory. What waits in the reorder
// queue is delivered.
func (r *Receiver[P]) Forget() {
	r.shut()
	r.pacer.Join(&r.entry, r, r.class, r.config.limit())
	r.allowed, r.unanswered, r.patience, r.answered, r.holdAt = r.config.Window, 0, 0, -1, units.Never
}

// shut closes the tunnel, and keeps the accounts of its sender.
func (r *Receiver[P]) shut() {
	r.release()
	r.pacer.Leave(&r.entry)
	r.open, r.waitsTo, r.late = false, units.Never, nil
}

// Close is Forget, and gives the RST that tells the sender so; nothing depends on whether it
// comes. It is false for one that is closed already.
func (r *Receiver[P]) Close() (c eqds.Control, ok bool) {
	if !r.open {
		return c, false
	}
	next := r.next
	r.Forget()
	return eqds.Control{Flags: eqds.FlagControl | eqds.FlagRST, Sender: r.id, Ack: next}, true
}

// Timer is when Tick is due, units.Never if it is not.
func (r *Receiver[P]) Timer() units.Time { return min(r.holeAt, r.holdAt, r.waitsTo) }

// Tick does what is due by now, but for an acknowledgement, which Delayed gives.
func (r *Receiver[P]) Tick(now units.Time) {
	if r.holeAt <= now {
		r.skip(now)
	}
	if r.holdAt <= now {
		r.unhold()
	}
}
