package cc

import "github.com/weftlab/weft/sim/units"

// Episode tells the losses and marks of one window of data apart from those of the next: a
// control that takes away of its window once a window begins an episode when it does, and
// what it hears until all is acknowledged that had been sent by then is of that. The zero
// Episode is over.
type Episode struct {
	on    bool
	until units.Bytes // is acknowledged; negative until the next acknowledgement tells
}

// Begin begins an episode at a loss. The next acknowledgement says what was sent.
func (e *Episode) Begin() { *e = Episode{true, -1} }

// BeginAt begins an episode at a mark. It lasts until something is acknowledged that was
// sent afterwards: what comes earlier may be of the same queue.
func (e *Episode) BeginAt(a *Ack) { *e = Episode{true, a.Sent + 1} }

// End ends it.
func (e *Episode) End() { e.on = false }

// On tells whether it is not over.
func (e *Episode) On() bool { return e.on }

// Acked takes an acknowledgement, with which it may be over.
func (e *Episode) Acked(a *Ack) {
	switch {
	case !e.on:
	case e.until < 0:
		e.until = a.Sent
	case a.Acked >= e.until:
		e.on = false
	}
}

// HeldBack tells whether the window kept a flow from sending more, when an acknowledgement
// came. A window that is not used up says nothing about the path, and does not grow
// (RFC 7661 §4, as Linux has it): in slow start it counts as used when half of it is.
func HeldBack(a *Ack, window, mtu units.Bytes, slowStart bool) bool {
	flying := a.InFlight + a.Newly
	if slowStart {
		return window < 2*flying
	}
	return flying+mtu > window
}
