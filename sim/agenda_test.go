package sim

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// TestAgenda compares an agenda with a plain list.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 600).Draw(t, "n")
		a, list := NewAgenda(n), make([]units.Time, n)
		for i := range list {
			list[i] = units.Never
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, n-1).Draw(t, "thing")
			at := rapid.OneOf(rapid.Int64Range(0, 9), rapid.Just(int64(units.Never))).Draw(t, "at")
			if rapid.Bool().Draw(t, "set") {
				a.Set(i, units.Time(at))
				list[i] = units.Time(at)
			} else {
				a.LowerTime(i, units.Time(at))
				list[i] = min(list[i], units.Time(at))
			}
			first := units.Never
			for _, x := range list {
				first = min(first, x)
			}
			if a.FirstTime() != first {
				t.Fatalf("the first is at %d, want %d", a.FirstTime(), first)
			}
			from, limit := rapid.IntRange(0, n).Draw(t, "from"), units.Time(rapid.Int64Range(0, 10).Draw(t, "limit"))
			want := -1
			for k := n - 1; k >= from; k-- {
				if list[k] <= limit {
					want = k
				}
			}
			if got := a.NextDue(from, limit); got != want {
				t.Fatalf("due from %d by %d: %d, want %d of %v", from, limit, got, want, list)
			}
		}
	})
}
