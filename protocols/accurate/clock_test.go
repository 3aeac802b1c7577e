package accurate

import (
	"math/rand/v2"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// TestClock: periods begin at their Start and not before; without skew and drift all clocks are
// equal.
func TestClock(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, c := range []Clocks{{RRP: 20 * us}, {RRP: 20 * us, Skew: 5 * us}, {RRP: 20 * us, Drift: 0.001}, {RRP: 20 * us, Skew: 30 * us, Drift: 0.01}} {
		seen := map[Clock]bool{}
		for range 100 {
			k := c.New(random)
			seen[k] = true
			for n := int64(-2); n < 1000; n += 7 {
				start := k.Start(n)
				if k.Period(start) != n || k.Period(start-1) != n-1 || k.Period(start+k.length-1) != n {
					t.Fatalf("%+v: period %d begins at %v", k, n, start)
				}
			}
			if k.skew < -c.Skew || k.skew > c.Skew || float64(k.length-c.RRP) > float64(c.Drift)*float64(c.RRP) || float64(c.RRP-k.length) > float64(c.Drift)*float64(c.RRP) {
				t.Errorf("%+v of %+v", k, c)
			}
		}
		if alone := c.Skew == 0 && c.Drift == 0; alone != (len(seen) == 1) {
			t.Errorf("%+v: %d clocks", c, len(seen))
		}
	}
	if k := (&Clocks{RRP: 20 * us}).New(nil); k.Period(units.Second) != 50_000 {
		t.Errorf("%+v: %d periods in a second (§V: 50 kHz)", k, k.Period(units.Second))
	}
}
