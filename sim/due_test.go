package sim

import (
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

// TestDue: whatever was armed, moved, disarmed and fired before, Due is the minimum
// of the timers' own due times, and calling it changes nothing.
func TestDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var asked, quiet Engine
		var a, b []fired
		timers, twins := make([]Timer, 5), make([]Timer, 5)
		for i := range timers {
			timers[i] = asked.NewTimer(&recorder{name: i, log: &a})
			twins[i] = quiet.NewTimer(&recorder{name: i, log: &b})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, in := rapid.IntRange(0, 4).Draw(t, "timer"), units.Time(rapid.IntRange(-3, 12).Draw(t, "in"))
			switch {
			case rapid.IntRange(0, 4).Draw(t, "run") == 0:
				asked.Run(asked.Now()+in, 2)
				quiet.Run(quiet.Now()+in, 2)
			case in < 0:
				timers[i].Disarm()
				twins[i].Disarm()
			default:
				timers[i].Arm(asked.Now() + in)
				twins[i].Arm(quiet.Now() + in)
			}
			want := units.Never
			for _, x := range timers {
				want = min(want, x.DueTime())
			}
			if got := asked.NextDue(); got != want {
				t.Fatalf("due %v, want %v", got, want)
			}
		}
		asked.Run(units.Never-1, 1000)
		quiet.Run(units.Never-1, 1000)
		if !slices.Equal(a, b) {
			t.Fatalf("asked %v, not asked %v", a, b)
		}
	})
}
