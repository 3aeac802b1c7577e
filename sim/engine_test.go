package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

type recorder struct {
	name int
	log  *[]fired
	then func(now units.Time)
}

type fired struct {
	at   units.Time
	name int
}

func (r *recorder) Fire(now units.Time) {
	*r.log = append(*r.log, fired{now, r.name})
	if r.then != nil {
		r.then(now)
	}
}

// TestAgainstModel drives random arming, re-arming (earlier and later) and
// disarming, from outside and from inside handlers, against the simplest
// possible model: a table of due times searched for its minimum.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Engine
		var got, want []fired
		const n = 9
		timers := make([]Timer, n)
		due := make([]units.Time, n)
		type op struct {
			timer int
			at    units.Time // relative; negative disarms
		}
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
			return op{rapid.IntRange(0, n-1).Draw(t, "timer"), units.Time(rapid.IntRange(-2, 12).Draw(t, "in"))}
		}), 1, 80).Draw(t, "ops")
		i := 0
		apply := func(now units.Time) (op, bool) {
			if i == len(ops) {
				return op{}, false
			}
			i++
			return ops[i-1], true
		}
		handlers := make([]*recorder, n)
		for k := range n {
			due[k] = units.Never
			handlers[k] = &recorder{name: k, log: &got}
			handlers[k].then = func(now units.Time) {
				if o, ok := apply(now); ok {
					if o.at < 0 {
						timers[o.timer].Disarm()
					} else {
						timers[o.timer].Arm(now + o.at)
					}
				}
			}
			timers[k] = e.NewTimer(handlers[k])
		}
		// A first batch is armed from outside.
		for k := range n {
			timers[k].Arm(units.Time(k % 4))
		}
		e.Run(units.Never-1, 1_000_000)

		// The model runs the same script.
		i = 0
		for k := range n {
			due[k] = units.Time(k % 4)
		}
		for {
			k := -1
			for j, d := range due {
				if d != units.Never && (k < 0 || d < due[k]) {
					k = j
				}
			}
			if k < 0 {
				break
			}
			now := due[k]
			due[k] = units.Never
			want = append(want, fired{now, k})
			if o, ok := apply(now); ok {
				if o.at < 0 {
					due[o.timer] = units.Never
				} else {
					due[o.timer] = now + o.at
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("fired %v, want %v", got, want)
		}
	})
}

func TestRunStopsAtLimitAndCount(t *testing.T) {
	var e Engine
	var log []fired
	for k := range 10 {
		e.NewTimer(&recorder{name: k, log: &log}).Arm(units.Time(k))
	}
	if n := e.Run(4, 3); n != 3 || len(log) != 3 {
		t.Fatalf("fired %d, want the 3 asked for", n)
	}
	if n := e.Run(4, 100); n != 2 || e.Now() != 4 || e.Next() != 5 {
		t.Fatalf("fired %d to %v, next %v; want 2 to 4ps, next 5ps", n, e.Now(), e.Next())
	}
}

type chain struct {
	t    Timer
	step units.Time
}

func (c *chain) Fire(now units.Time) { c.t.Arm(now + c.step) }

// BenchmarkFire measures the cost of one event with the given number pending.
func BenchmarkFire(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", n), func(b *testing.B) {
			var e Engine
			for i := range n {
				c := &chain{step: units.Time(1000 + i%977)}
				c.t = e.NewTimer(c)
				c.t.Arm(units.Time(i % 1009))
			}
			e.Run(units.Never-1, 2*n)
			b.ReportAllocs()
			b.ResetTimer()
			e.Run(units.Never-1, b.N)
		})
	}
}
