package links

import (
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Inbox holds what others have sent to a process of a run in virtual time until
// its turn comes. All who write to it run on the process's own worker; what other
// workers send comes by their outboxes. So nothing is locked, and what a packet
// needs at its far end is touched only when that end has its turn.
type Inbox struct {
	letters []letter
	first   units.Time  // the earliest arrival among them
	agenda  *sim.Agenda // of the process's worker
	number  int         // of the process there
	cut     []*flight   // have lost packets
}

// NewInbox gives the inbox of a process, whose number in its worker's agenda is
// given.
func NewInbox(agenda *sim.Agenda, number int) *Inbox {
	return &Inbox{first: units.Never, agenda: agenda, number: number}
}

// put adds a letter. One that takes packets back has no hurry: the process reads
// it before it comes to any of them.
func (in *Inbox) put(l letter) {
	in.letters = append(in.letters, l)
	if l.packet != nil && l.at < in.first {
		in.first = l.at
		in.agenda.Lower(in.number, l.at)
	}
}

// Land puts under way what has come. It belongs to the process.
func (in *Inbox) Land() {
	for i := range in.letters {
		l := &in.letters[i]
		l.to.land(l)
	}
	in.letters, in.first = in.letters[:0], units.Never
}

// Shrink gives up the room of letters that have been read. It is called between runs.
func (in *Inbox) Shrink() {
	if len(in.letters) == 0 {
		in.letters = nil
	}
}

// Settle counts and frees what was lost when links went down. It is called when
// all has come that was sent by then: before that a sender may have taken back
// some of it.
func (in *Inbox) Settle() {
	in.Land()
	for _, f := range in.cut {
		f.settle()
	}
	in.cut = in.cut[:0]
}

// Outbox carries letters from one worker to the inboxes of another. The two meet
// between windows, and the sender has another half for the next window while the
// receiver empties the first: nothing is locked.
type Outbox struct {
	halves [2][]parcel
	half   int        // being written
	first  units.Time // the earliest arrival in it
	_      [64]byte   // the receiver's cache lines are others
}

// parcel is a letter with the inbox that it is for.
type parcel struct {
	to *Inbox
	letter
}

func (o *Outbox) put(to *Inbox, l letter) {
	half := append(o.halves[o.half], parcel{})
	p := &half[len(half)-1]
	p.to, p.letter = to, l
	o.halves[o.half] = half
	if l.packet != nil {
		o.first = min(o.first, l.at)
	}
}

// Begin has the sender write to a half, 0 or 1, from now on.
func (o *Outbox) Begin(half int) { o.half, o.first = half, units.Never }

// First is the earliest arrival of what was sent since Begin, units.Never if that is
// nothing.
func (o *Outbox) First() units.Time { return o.first }

// Shrink gives up the room of what has been delivered. It is called between runs.
func (o *Outbox) Shrink() {
	for i := range o.halves {
		if len(o.halves[i]) == 0 {
			o.halves[i] = nil
		}
	}
}

// Deliver empties a half into the inboxes. It belongs to the receiver.
func (o *Outbox) Deliver(half int) {
	all := o.halves[half]
	for i := range all {
		all[i].to.put(all[i].letter)
	}
	o.halves[half] = all[:0]
}
