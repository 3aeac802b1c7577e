package axis

import "math"

// LogRange returns the ends of a logarithmic axis for values from low to high, both
// above 0: the nearest of 1, 2 and 5 times a power of ten outside them, so that less
// than a third of a decade is empty at either end. It spans at least half a decade.
func LogRange(low, high float64) (from, to float64) {
	from, to = roundLog(low, false), roundLog(high, true)
	for to < 3*from {
		to = roundLog(to*1.5, true)
	}
	return from, to
}

// roundLog returns v, or the nearest of 1, 2 and 5 times a power of ten above or
// below it. A value that differs from one of these only by rounding counts as that
// one.
func roundLog(v float64, up bool) float64 {
	exponent := math.Floor(math.Log10(v)) - 1
	steps := []float64{1, 2, 5, 10, 20, 50, 100}
	power := math.Pow(10, exponent)
	if up {
		for _, s := range steps {
			if s*power >= v*(1-near) {
				return s * power
			}
		}
	}
	best := power
	for _, s := range steps {
		if s*power <= v*(1+near) {
			best = s * power
		}
	}
	return best
}

// Decade is an integer multiple of a power of ten.
type Decade struct {
	Times    int // 1 to 9
	Exponent int
}

// Value returns the decade as a number.
func (d Decade) Value() float64 { return float64(d.Times) * math.Pow(10, float64(d.Exponent)) }

// Decades returns the integer multiples of powers of ten from low, above 0, to high.
func Decades(low, high float64) (all []Decade) {
	if !(low > 0) || math.IsInf(high, 0) {
		return nil
	}
	for exponent := int(math.Floor(math.Log10(low) + near)); ; exponent++ {
		for m := 1; m < 10; m++ {
			d := Decade{m, exponent}
			at := d.Value()
			if at > high*(1+near) {
				return all
			}
			if at >= low*(1-near) {
				all = append(all, d)
			}
		}
	}
}
