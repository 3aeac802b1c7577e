package links

import (
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/prefetch"
	"github.com/weftlab/weft/sim/units"
)

// Inbox holds the messages sent to a process of a virtual-time run until the process
// has its turn. Only the process's own worker writes to it; messages from other
// workers arrive through their outboxes. So no lock is needed, and the state at a
// packet's far end is touched only when that end has its turn.
type Inbox struct {
	messages []message
	first    units.Time  // the earliest arrival among them
	agenda   *sim.Agenda // of the process's worker
	number   int         // of the process in agenda
	cut      []*Flight   // that have lost packets
}

// NewInbox makes the inbox of the process with this number in its worker's agenda.
func NewInbox(agenda *sim.Agenda, number int) *Inbox {
	return &Inbox{first: units.Never, agenda: agenda, number: number}
}

// putMessage adds a message. A recall is not urgent: the process reads it before it reaches
// any of the recalled packets.
func (in *Inbox) putMessage(l message) {
	in.messages = append(in.messages, l)
	if l.packet != nil && l.at < in.first {
		in.first = l.at
		in.agenda.LowerTime(in.number, l.at)
	}
}

// WaitingMessages returns the number of messages.
func (in *Inbox) WaitingMessages() int { return len(in.messages) }

// Prefetch prefetches the flights that DeliverMessages will hand messages to. It has no other effect.
func (in *Inbox) Prefetch() {
	for i := range in.messages {
		prefetch.PrefetchHead(in.messages[i].to, FarSize)
	}
}

// DeliverMessages hands the messages to their flights. The process calls it.
func (in *Inbox) DeliverMessages() {
	for i := range in.messages {
		l := &in.messages[i]
		l.to.receiveMessage(l)
	}
	in.messages, in.first = in.messages[:0], units.Never
}

// ReleaseMemory releases the memory of messages that have been read. It is called between runs.
func (in *Inbox) ReleaseMemory() {
	if len(in.messages) == 0 {
		in.messages = nil
	}
}

// FreeLostPackets counts and frees the packets lost when links went down. It is called once
// all messages sent by then have arrived: before that, a sender may still recall some
// of the packets.
func (in *Inbox) FreeLostPackets() {
	in.DeliverMessages()
	for _, f := range in.cut {
		f.freeLostPackets()
	}
	in.cut = in.cut[:0]
}

// Outbox carries messages from one worker to the inboxes of another. The two
// synchronise between windows, and the sender writes one half while the receiver
// empties the other. So no lock is needed.
type Outbox struct {
	halves [2][]envelope
	half   int        // being written
	first  units.Time // the earliest arrival in it
	_      [64]byte   // keeps the receiver's cache lines apart
}

// envelope is a message and its inbox.
type envelope struct {
	to *Inbox
	message
}

func (o *Outbox) putMessage(to *Inbox, l message) {
	half := append(o.halves[o.half], envelope{})
	p := &half[len(half)-1]
	p.to, p.message = to, l
	o.halves[o.half] = half
	if l.packet != nil {
		o.first = min(o.first, l.at)
	}
}

// BeginHalf makes the sender write to a half, 0 or 1, from now on.
func (o *Outbox) BeginHalf(half int) { o.half, o.first = half, units.Never }

// FirstArrival returns the earliest arrival among the messages sent since BeginHalf, units.Never
// if there is none.
func (o *Outbox) FirstArrival() units.Time { return o.first }

// ReleaseMemory releases the memory of delivered messages. It is called between runs.
func (o *Outbox) ReleaseMemory() {
	for i := range o.halves {
		if len(o.halves[i]) == 0 {
			o.halves[i] = nil
		}
	}
}

// DeliverHalf empties a half into the inboxes. The receiver calls it.
func (o *Outbox) DeliverHalf(half int) {
	all := o.halves[half]
	for i := range all {
		all[i].to.putMessage(all[i].message)
	}
	o.halves[half] = all[:0]
}
