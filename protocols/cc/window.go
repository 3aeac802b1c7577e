package cc

import "github.com/weftlab/weft/sim/units"

// Episode separates the losses and marks of one window of data from those of the next. A
// control that reduces its window once per window of data begins an episode when it does.
// Losses and marks belong to the episode until everything sent by then is acknowledged. The
// zero Episode is over.
type Episode struct {
	on    bool
	until units.Bytes // this much is acknowledged; negative until the next acknowledgement sets it
}

// Begin begins an episode at a loss. The next acknowledgement says what was sent.
func (e *Episode) Begin() { *e = Episode{true, -1} }

// BeginAt begins an episode at a mark. It lasts until something sent afterwards is
// acknowledged: earlier marks may come from the same queue.
func (e *Episode) BeginAt(a *Ack) { *e = Episode{true, a.Sent + 1} }

// End ends the episode.
func (e *Episode) End() { e.on = false }

// IsActive reports whether the episode lasts.
func (e *Episode) IsActive() bool { return e.on }

// OnAck handles an acknowledgement, which may end the episode.
func (e *Episode) OnAck(a *Ack) {
	switch {
	case !e.on:
	case e.until < 0:
		e.until = a.Sent
	case a.Acked >= e.until:
		e.on = false
	}
}

// HeldBack reports whether the window kept a flow from sending more when an acknowledgement
// came. A window that is not used up says nothing about the path, and does not grow (RFC 7661
// §4, as in Linux). In slow start it counts as used up if more than half of it is used.
func HeldBack(a *Ack, window, mtu units.Bytes, slowStart bool) bool {
	inFlight := a.InFlight + a.Newly
	if slowStart {
		return window < 2*inFlight
	}
	return inFlight+mtu > window
}
