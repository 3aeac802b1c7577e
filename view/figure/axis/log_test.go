package axis

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLogRange(t *testing.T) {
	for _, c := range []struct{ low, high, from, to float64 }{
		{297, 440, 200, 1000}, {10.3, 10.7, 10, 50}, {1, 1, 1, 5}, {1, 100, 1, 100}, {9.5, 1200, 5, 2000},
		// Division by a unit may give a value slightly below the power of ten.
		{0.001 / 1e-6, 0.5, 1000, 5000}, {math.Nextafter(1000, 0), 3000, 1000, 5000}, {math.Nextafter(0.1, 1), math.Nextafter(10, 11), 0.1, 10},
	} {
		from, to := LogRange(c.low, max(c.low, c.high))
		if math.Abs(from/c.from-1) > 1e-9 || math.Abs(to/c.to-1) > 1e-9 {
			t.Errorf("%v to %v is shown from %v to %v, want %v to %v", c.low, c.high, from, to, c.from, c.to)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		low := math.Pow(10, rapid.Float64Range(-12, 12).Draw(t, "low"))
		high := low * math.Pow(10, rapid.Float64Range(0, 12).Draw(t, "decades"))
		from, to := LogRange(low, high)
		if from > low*(1+2e-9) || low > 2.5*from*(1+1e-9) || to < high*(1-2e-9) || to < 3*from || to > 2.5*high*(1+1e-9) && to > 7.6*from {
			t.Fatalf("%v to %v is shown from %v to %v", low, high, from, to)
		}
		for _, d := range Decades(from, to) {
			if v := d.Value(); v < from*(1-1e-8) || v > to*(1+1e-8) {
				t.Fatalf("a mark at %v of an axis from %v to %v", v, from, to)
			}
		}
		if len(Decades(from, to)) < 2 {
			t.Fatalf("fewer than two marks on an axis from %v to %v", from, to)
		}
	})
}
