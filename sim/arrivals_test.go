package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

// arrivalOrder returns the order in which arrivals with these salts fire, at each of n
// instants that are gap apart.
func arrivalOrder(salts []uint64, n int, gap units.Time) (orders [][]int) {
	var e Engine
	var now []int
	timers := make([]Timer, len(salts))
	for i, salt := range salts {
		timers[i] = e.NewArrival(fires(func(units.Time) { now = append(now, i) }), salt)
	}
	for k := range n {
		now = nil
		for _, t := range timers {
			t.Arm(units.Time(k+1) * gap)
		}
		e.Run(units.Never-1, math.MaxInt)
		orders = append(orders, now)
	}
	return orders
}

// TestArrivals_EachOrderIsEquallyLikely: among three arrivals that are due at the same
// instants again and again, all six orders occur equally often, and an order does not depend
// on the one before. It holds for any seed and for gaps of packets at common rates.
func TestArrivals_EachOrderIsEquallyLikely(t *testing.T) {
	const n = 6000
	gaps := []units.Time{1, 1 << 20, 512 * units.Nanosecond, 1234567, 17056 * units.Nanosecond, units.Millisecond}
	for seed := range uint64(8) {
		for _, gap := range gaps {
			salts := []uint64{NewSalt(seed, "arrivals h1:eth0"), NewSalt(seed, "arrivals h2:eth0"), NewSalt(seed, "arrivals h3:eth0")}
			count, pairs, last := map[string]int{}, map[string]int{}, ""
			for _, order := range arrivalOrder(salts, n, gap) {
				s := fmt.Sprint(order)
				count[s]++
				pairs[last+s]++
				last = s
			}
			if len(count) != 6 || len(pairs) != 37 {
				t.Fatalf("seed %d, every %v: %d orders, %d sequences of two", seed, gap, len(count), len(pairs))
			}
			// Six standard deviations of the number of times that one of six occurs.
			const mean, most = n / 6, 6 * 29
			for s, c := range count {
				if c < mean-most || c > mean+most {
					t.Errorf("seed %d, every %v: order %s %d times of %d", seed, gap, s, c, n)
				}
			}
			const mean2, most2 = n / 36, 6 * 13
			for s, c := range pairs {
				if len(s) > 8 && (c < mean2-most2 || c > mean2+most2) {
					t.Errorf("seed %d, every %v: orders %s %d times of %d", seed, gap, s, c, n)
				}
			}
		}
	}
}

// TestArrivals_OrderFollowsFromSeedAlone: the order at an instant is the same in each run,
// whatever else the engine has and in which order arrivals were registered and armed, and
// another seed gives another.
func TestArrivals_OrderFollowsFromSeedAlone(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	run := func(seed uint64, names []string, others int) (log []string) {
		var e Engine
		var timers []Timer
		for range others {
			e.NewTimer(fires(func(units.Time) {}))
		}
		for i, name := range names {
			timers = append(timers, e.NewArrival(fires(func(units.Time) { log = append(log, name) }), NewSalt(seed, name)))
			if i < others {
				other := e.NewArrival(fires(func(units.Time) {}), NewSalt(seed, fmt.Sprint(i)))
				other.Arm(units.Time(10 * i))
			}
		}
		for k := range units.Time(50) {
			for _, timer := range timers {
				timer.Arm(10 * k)
			}
			e.Run(10*k, math.MaxInt)
		}
		return log
	}
	want := run(7, names, 0)
	back := slices.Clone(names)
	slices.Reverse(back)
	if got := run(7, names, 3); !slices.Equal(got, want) {
		t.Errorf("with others %v, want %v", got, want)
	}
	if got := run(7, back, 0); !slices.Equal(got, want) {
		t.Errorf("registered backwards %v, want %v", got, want)
	}
	if got := run(8, names, 0); slices.Equal(got, want) {
		t.Errorf("another seed gives the same order %v", got)
	}
}

// TestArrivals_HaveAPlaceAmongTimers: timers registered before the arrivals come first, the
// others last, in the order of their registration, and then processes, whenever they were
// started.
func TestArrivals_HaveAPlaceAmongTimers(t *testing.T) {
	for seed := range uint64(20) {
		var e Engine
		var log []string
		note := func(name string) Handler { return fires(func(units.Time) { log = append(log, name) }) }
		e.Go("early", func(p *Process) {
			p.Sleep(5)
			log = append(log, "process")
		})
		timers := []Timer{e.NewTimer(note("first")), e.NewTimer(note("second"))}
		timers = append(timers, e.NewArrival(note("arrival"), NewSalt(seed, "x")), e.NewArrival(note("arrival"), NewSalt(seed, "y")))
		timers = append(timers, e.NewTimer(note("third")), e.NewTimer(note("fourth")))
		for _, timer := range slices.Backward(timers) {
			timer.Arm(5)
		}
		e.Run(10, math.MaxInt)
		if want := []string{"first", "second", "arrival", "arrival", "third", "fourth", "process"}; !slices.Equal(log, want) {
			t.Fatalf("seed %d: %q, want %q", seed, log, want)
		}
	}
}

// TestArrivals_MoveLikeTimers: whatever arrivals are armed, moved and disarmed, they fire at
// their due times, each once, and those of one instant in the order that they have without
// all this.
func TestArrivals_MoveLikeTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 4
		seed := rapid.Uint64().Draw(t, "seed")
		var moved, plain Engine
		var a, b []fired
		var timers, twins [n]Timer
		for i := range n {
			salt := NewSalt(seed, fmt.Sprint(i))
			timers[i] = moved.NewArrival(&recorder{name: i, log: &a}, salt)
			twins[i] = plain.NewArrival(&recorder{name: i, log: &b}, salt)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, in := rapid.IntRange(0, n-1).Draw(t, "timer"), units.Time(rapid.IntRange(-2, 6).Draw(t, "in"))
			if in < 0 {
				timers[i].Disarm()
			} else {
				timers[i].Arm(in)
			}
		}
		for i := range n {
			if due := timers[i].DueTime(); due != units.Never {
				twins[i].Arm(due)
			}
		}
		moved.Run(10, 100)
		plain.Run(10, 100)
		if !slices.Equal(a, b) {
			t.Fatalf("moved %v, want %v", a, b)
		}
	})
}
