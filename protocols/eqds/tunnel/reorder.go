package tunnel

import (
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
)

// advanceNext advances next by one.
func (r *Receiver[P]) advanceNext() {
	r.next++
	r.since = min(r.since+1, eqds.Span)
}

// isQueued reports whether packet seq is in the reorder queue.
func (r *Receiver[P]) isQueued(seq uint16) bool {
	return int(seq-r.next) < len(r.late) && r.late[int(seq)&(len(r.late)-1)].full
}

// queueForReorder puts a packet into the reorder queue.
func (r *Receiver[P]) queueForReorder(now units.Time, seq uint16, p P, size units.Bytes) {
	if room := int(seq-r.next) + 1; room > len(r.late) {
		r.growReorder(room)
	}
	r.late[int(seq)&(len(r.late)-1)] = slot[P]{p, uint32(size), true}
	r.count++
	r.kept += size
	if r.holeAt == units.Never {
		r.holeAt = now + r.config.Reorder
	}
}

// growReorder makes room for that many numbers.
func (r *Receiver[P]) growReorder(room int) {
	n := max(16, len(r.late))
	for n < room {
		n *= 2
	}
	more := make([]slot[P], n)
	for k := range len(r.late) {
		seq := r.next + uint16(k)
		more[int(seq)&(n-1)] = r.late[int(seq)&(len(r.late)-1)]
	}
	r.late = more
}

// deliverNext removes the next packet from the reorder queue and delivers it, if it is there.
func (r *Receiver[P]) deliverNext() bool {
	if r.count == 0 || !r.isQueued(r.next) {
		return false
	}
	s := &r.late[int(r.next)&(len(r.late)-1)]
	p, size := s.p, s.size
	*s = slot[P]{}
	r.advanceNext()
	r.count--
	r.kept -= units.Bytes(size)
	r.counted.Packets++
	r.deliver(p)
	return true
}

// deliverInOrder delivers what is in order after next has advanced.
func (r *Receiver[P]) deliverInOrder(now units.Time) {
	for r.deliverNext() {
	}
	r.holeAt = units.Never
	if r.count > 0 {
		r.holeAt = now + r.config.Reorder // a different hole
	}
}

// skipHole gives up on the packets before the first one that is there.
func (r *Receiver[P]) skipHole(now units.Time) {
	for !r.isQueued(r.next) {
		r.advanceNext()
		r.counted.Holes++
	}
	r.deliverInOrder(now)
}

// deliverAll delivers what is there, with holes, when the incarnation is over (Appendix A).
func (r *Receiver[P]) deliverAll() {
	for r.count > 0 {
		if !r.deliverNext() {
			r.advanceNext()
		}
	}
	r.holeAt = units.Never
}

// maxHoldTime bounds holds: a sender that has become honest is not kept out for ever.
const maxHoldTime = units.Second

// chargeCredit subtracts a packet from what the sender may send, and reports whether it may send
// that. The sender gets its window back when the link has nothing to do.
func (r *Receiver[P]) chargeCredit(size units.Bytes) bool {
	r.unanswered = max(0, r.unanswered-size-size/4) // some are lost on their way
	if r.holdAt != units.Never && r.unanswered <= r.config.Window {
		r.holdTime = 0
		r.releaseSender()
	}
	if r.pacer.BusyTime() == 0 {
		r.allowed = max(r.allowed, r.config.Window)
	}
	if r.allowed+r.config.Window < size {
		return false
	}
	r.allowed -= size
	return true
}

// denyCredit denies the sender more credit, for twice as long as the last time.
func (r *Receiver[P]) denyCredit(now units.Time) {
	r.holdTime = min(max(4*r.config.RTO, 2*r.holdTime), maxHoldTime)
	r.holdAt = now + r.holdTime
	r.counted.Holds++
	r.pacer.HoldSender(&r.entry)
}

// releaseSender gives the sender another chance.
func (r *Receiver[P]) releaseSender() {
	r.unanswered, r.holdAt = 0, units.Never
	r.pacer.ReleaseSender(&r.entry)
}
