package sim

import (
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// TestPastMeansNow: nothing fires before the engine's time, which only rises.
func TestPastMeansNow(t *testing.T) {
	var e Engine
	var log []fired
	timer := e.NewTimer(&recorder{name: 1, log: &log})
	e.AdvanceTo(100)
	e.AdvanceTo(50)
	if e.Now() != 100 {
		t.Fatalf("advanced to 100 and then 50, now %v", e.Now())
	}
	timer.Arm(30)
	if timer.DueTime() != 100 {
		t.Errorf("armed for the past, due %v; want 100ps", timer.DueTime())
	}
	e.Run(units.Never-1, 10)
	if want := []fired{{100, 1}}; !slices.Equal(log, want) {
		t.Errorf("fired %v, want %v", log, want)
	}
}

// TestDisarmed: a disarmed timer does not fire, and does not keep Run busy.
func TestDisarmed(t *testing.T) {
	var e Engine
	var log []fired
	timer := e.NewTimer(&recorder{name: 1, log: &log})
	timer.Arm(10)
	timer.Disarm()
	if timer.DueTime() != units.Never {
		t.Errorf("disarmed, due %v", timer.DueTime())
	}
	if n := e.Run(units.Never-1, 10); n != 0 || len(log) != 0 || e.FiredEvents() != 0 || e.Next() != units.Never {
		t.Errorf("fired %d %v, next %v; want nothing", n, log, e.Next())
	}
	timer.Arm(20)
	if n := e.Run(units.Never-1, 10); n != 1 || e.FiredEvents() != 1 || e.Now() != 20 {
		t.Errorf("armed again: fired %d at %v, want 1 at 20ps", n, e.Now())
	}
}

// TestNamedStreams: a stream of random numbers depends on the seed and on its
// name, on nothing else, and is the same on every machine.
func TestNamedStreams(t *testing.T) {
	const want = 0xb95634dfce246373
	first := func(seed uint64, name string) uint64 { return NewRand(seed, name).Uint64() }
	if got := first(7, "link s1:1"); got != want {
		t.Errorf("the first number of seed 7, link s1:1 is %#x, was %#x: runs no longer repeat", got, uint64(want))
	}
	if first(7, "link s1:1") == first(8, "link s1:1") || first(7, "link s1:1") == first(7, "link s1:2") {
		t.Error("two streams begin alike")
	}
	if got := HashName("weft"); got != 0x3d8b12f619f6348b {
		t.Errorf("the hash of a name is %#x: FNV-1a gives another", got)
	}
}

// TestStaleEntriesGo: a timer that is moved to earlier times again and again leaves
// stale entries, which do not accumulate.
func TestStaleEntriesGo(t *testing.T) {
	var e Engine
	var log []fired
	r := &recorder{log: &log}
	timer := e.NewTimer(r)
	r.then = func(now units.Time) {
		timer.Arm(now + 10)
		timer.Arm(now + 5)
	}
	timer.Arm(0)
	for range 1000 {
		e.Run(units.Never-1, 1)
		if e.queue.n > 4 {
			t.Fatalf("at %v the queue holds %d entries for one timer", e.Now(), e.queue.n)
		}
	}
}
