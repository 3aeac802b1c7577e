package fairness

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestJain: known values of the index.
func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{
		{[]float64{5}, 1},
		{[]float64{3, 3, 3}, 1},
		{[]float64{0, 7, 0, 0}, 0.25},
		{[]float64{10, 20, 30, 40}, 100. * 100 / (4 * 3000)},
		{nil, math.NaN()},
		{[]float64{0, 0}, math.NaN()},
	} {
		if got := Jain(c.shares...); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("of %v: %v, want %v", c.shares, got, c.want)
		}
	}
}

// TestJainIsAShare: the index lies between 1/n and 1, and does not depend on the unit.
func TestJainIsAShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 1, 20).Draw(t, "shares")
		shares[0]++ // at least one has something
		scaled := make([]float64, len(shares))
		for i, x := range shares {
			scaled[i] = 8 * x
		}
		j, minIndex := Jain(shares...), 1/float64(len(shares))
		if j < minIndex*(1-1e-12) || j > 1+1e-12 {
			t.Fatalf("%v is outside %v to 1", j, minIndex)
		}
		if s := Jain(scaled...); math.Abs(s-j) > 1e-12 {
			t.Fatalf("%v, in another unit %v", j, s)
		}
	})
}
