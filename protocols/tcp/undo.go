package tcp

import "github.com/weftlab/weft/sim/units"

// undo finds out that a recovery was for nothing: all was late and nothing lost.
type undo struct {
	marker bool        // something is being made good
	any    bool        // and was sent again
	from   units.Bytes // what was acknowledged when it began
	stamp  uint32      // timestamp of the first of that
	again  int32       // sent again, and not told of as having come twice
}

// begin begins with what is being made good now. flying is how many segments were sent again
// before, in the episode until now, and are still under way: the answer to one of them says
// nothing of this episode.
func (u *undo) begin(acked units.Bytes, flying int32) {
	if flying > 0 && u.any {
		*u = undo{marker: true, from: acked, any: true, stamp: u.stamp, again: flying}
		return
	}
	*u = undo{marker: true, from: acked}
}

// resent notes a segment that is sent again.
func (u *undo) resent(stamp uint32) {
	if !u.any {
		u.any, u.stamp = true, stamp
	}
	u.again++
}

// double notes n segments before to that came twice. Those of before count for nothing.
func (u *undo) double(n, to units.Bytes) {
	if to > u.from {
		u.again = max(0, u.again-int32(n))
	}
}

// spurious tells whether the recovery was for nothing: the receiver has got all that was
// sent again twice (RFC 3708), which it may say when the recovery is over, or a first
// acknowledgement, which moved, answers to a timestamp from before (RFC 4015).
func (u *undo) spurious(moved bool, echo uint32, double bool) bool {
	if !u.marker || !u.any {
		return false
	}
	return double && u.again == 0 || moved && echo != 0 && int32(echo-u.stamp) < 0
}
