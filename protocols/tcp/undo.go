package tcp

import "github.com/weftlab/weft/sim/units"

// undo detects spurious recoveries: segments were late and none was lost.
type undo struct {
	marker bool        // a recovery is in progress
	any    bool        // and has retransmitted something
	from   units.Bytes // acknowledged when it began
	stamp  uint32      // timestamp of the first retransmission
	again  int32       // retransmissions that the receiver has not reported as duplicates
}

// beginRecovery begins a recovery. flying is the number of segments still in flight that the
// previous episode retransmitted: an answer to one of them says nothing about this recovery.
func (u *undo) beginRecovery(acked units.Bytes, inFlight int32) {
	if inFlight > 0 && u.any {
		*u = undo{marker: true, from: acked, any: true, stamp: u.stamp, again: inFlight}
		return
	}
	*u = undo{marker: true, from: acked}
}

// recordResend records a retransmission.
func (u *undo) recordResend(stamp uint32) {
	if !u.any {
		u.any, u.stamp = true, stamp
	}
	u.again++
}

// recordDuplicates records n duplicate segments, up to offset to. Those from before the recovery do
// not count.
func (u *undo) recordDuplicates(n, to units.Bytes) {
	if to > u.from {
		u.again = max(0, u.again-int32(n))
	}
}

// isSpurious reports whether the recovery was spurious. Either the receiver has got everything
// that was retransmitted twice (RFC 3708), which it may report after the recovery, or the
// first acknowledgement that advanced echoes a timestamp from before the retransmission (RFC
// 4015).
func (u *undo) isSpurious(moved bool, echo uint32, double bool) bool {
	if !u.marker || !u.any {
		return false
	}
	return double && u.again == 0 || moved && echo != 0 && int32(echo-u.stamp) < 0
}
