package sim

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// fetcher counts how often its memory is prefetched.
type fetcher struct{ fetched, fired int }

func (f *fetcher) Fire(units.Time) { f.fired++ }
func (f *fetcher) Prefetch()       { f.fetched++ }

// TestPrefetch: Prefetch is called on handlers when enough of them are due, and only
// on those that are due. Nothing fires because of it.
func TestPrefetch(t *testing.T) {
	var e Engine
	e.Prefetch(100) // nothing is registered
	var all [5]fetcher
	for i := range all {
		e.NewTimer(&all[i]).Arm(units.Time(10 * (i + 1)))
	}
	plain := 0
	e.NewTimer(fires(func(units.Time) { plain++ })).Arm(15) // has nothing to fetch
	fetched := func() (n [5]int) {
		for i := range all {
			n[i] = all[i].fetched
		}
		return n
	}
	if e.Prefetch(19); fetched() != [5]int{} {
		t.Errorf("with two due: %v", fetched())
	}
	if e.Prefetch(30); fetched() != [5]int{1, 1, 1} {
		t.Errorf("with four due: %v", fetched())
	}
	if e.Run(30, 100); fetched() != [5]int{1, 1, 1} || all[2].fired != 1 || all[3].fired != 0 || plain != 1 {
		t.Errorf("after they fired: %v, %+v, %d", fetched(), all, plain)
	}
	if e.Prefetch(50); fetched() != [5]int{1, 1, 1} {
		t.Errorf("with two left: %v", fetched())
	}
}
