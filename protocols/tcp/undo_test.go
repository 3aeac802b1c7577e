package tcp

import "testing"

// TestUndo: an echo of before the first segment that was sent again tells that a recovery was
// spurious, but not where it answers to one that was sent again in the recovery before.
func TestUndo(t *testing.T) {
	for _, c := range []struct {
		name   string
		flying int32 // sent again before, and under way
		echo   uint32
		double int // segments that came twice
		want   bool
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
		u.begin(1000, 0)
		u.resent(5)
		u.resent(6)
		u.begin(2000, c.flying)
		u.resent(9)
		for range c.double {
			u.double(1, 2000)
			u.double(1, 3000)
		}
		if got := u.spurious(true, c.echo, c.double > 0); got != c.want {
			t.Errorf("%s: spurious is %v", c.name, got)
		}
	}
}
