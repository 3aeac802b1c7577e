package tcp

import "testing"

// TestUndo: an echo from before the first retransmission shows that a recovery was spurious,
// unless it answers a retransmission of the previous recovery.
func TestUndo(t *testing.T) {
	for _, c := range []struct {
		name     string
		inFlight int32 // retransmitted before, and in flight
		echo     uint32
		double   int // duplicate segments
		want     bool
	}{
		{"the first copy came", 0, 8, 0, true},
		{"the second copy came", 0, 9, 0, false},
		{"one of the recovery before came", 2, 5, 0, false},
		{"one of before all that came", 2, 4, 0, true},
		{"all came twice", 0, 9, 1, true},
		{"all came twice, but for those of before", 2, 9, 1, false},
		{"all came twice, and those of before", 2, 9, 3, true},
	} {
		var u undo
		u.beginRecovery(1000, 0)
		u.recordResend(5)
		u.recordResend(6)
		u.beginRecovery(2000, c.inFlight)
		u.recordResend(9)
		for range c.double {
			u.recordDuplicates(1, 2000)
			u.recordDuplicates(1, 3000)
		}
		if got := u.isSpurious(true, c.echo, c.double > 0); got != c.want {
			t.Errorf("%s: spurious is %v", c.name, got)
		}
	}
}
