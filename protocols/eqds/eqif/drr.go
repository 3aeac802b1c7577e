package eqif

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Turn is a place in a Rotation: an EQIF of a host, or a tunnel of an EQIF. It is embedded
// in what that is, the owner. A new one needs Owner and Weight set, and Size while it waits.
type Turn[O any] struct {
	Owner O
	// Weight is its share of the link beside others, in quanta; 0 counts as 1.
	Weight int
	// Size is that of the owner's next packet, as a frame, which the owner keeps true: above 0
	// while it waits.
	Size          units.Bytes
	credit        units.Bytes
	before, after *Turn[O]
}

// Waiting tells whether it is in a rotation.
func (t *Turn[O]) Waiting() bool { return t.after != nil }

// Rotation is deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) among those that
// have a packet that may leave, in bytes on the wire. Make it with NewRotation.
type Rotation[O any] struct {
	quantum units.Bytes
	first   *Turn[O] // of a ring; nil if nobody waits
}

// NewRotation makes a rotation. mtu is the largest frame.
func NewRotation[O any](mtu units.Bytes) *Rotation[O] {
	return &Rotation[O]{quantum: packet.OnWire(mtu)}
}

// Enter has one take part, last. One that does already stays where it is.
func (r *Rotation[O]) Enter(t *Turn[O]) {
	if t.Waiting() {
		return
	}
	t.credit = r.turn(t)
	if r.first == nil {
		t.before, t.after = t, t
		r.first = t
		return
	}
	t.after, t.before = r.first, r.first.before
	t.before.after, t.after.before = t, t
}

// Leave takes one out, if it takes part: it has nothing more.
func (r *Rotation[O]) Leave(t *Turn[O]) {
	if !t.Waiting() {
		return
	}
	switch {
	case t.after == t:
		r.first = nil
	case r.first == t:
		r.first = t.after
	}
	t.before.after, t.after.before = t.after, t.before
	t.before, t.after = nil, nil
}

// Head is the one whose turn it is; nil if nobody waits. It stays so until Sent, Leave, or
// until its next packet is longer than what is left of its turn.
func (r *Rotation[O]) Head() *Turn[O] {
	if r.first == nil {
		return nil
	}
	for {
		t := r.first
		if packet.OnWire(t.Size) <= t.credit {
			return t
		}
		t.credit += r.turn(t)
		r.first = t.after
	}
}

// turn is what one may send in a turn.
func (r *Rotation[O]) turn(t *Turn[O]) units.Bytes {
	return r.quantum * units.Bytes(max(1, t.Weight))
}

// Sent counts a packet of the one at the head, that was size long as a frame.
func (r *Rotation[O]) Sent(size units.Bytes) { r.first.credit -= packet.OnWire(size) }
