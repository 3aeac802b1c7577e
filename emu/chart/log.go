package chart

import (
	"math"

	"gonum.org/v1/plot"

	"github.com/weftlab/weft/sim/units"
)

// logRange gives the ends of a logarithmic axis for values from low to high, both
// above 0: the nearest of 1, 2 and 5 times a power of ten outside them, so that less
// than a third of a decade is empty at either end. It spans half a decade at least.
func logRange(low, high float64) (from, to float64) {
	from, to = roundLog(low, false), roundLog(high, true)
	for to < 3*from {
		to = roundLog(to*1.5, true)
	}
	return from, to
}

// roundLog gives v, or the nearest of 1, 2 and 5 times a power of ten above or below
// it. What misses one by a rounding of its unit is that one.
func roundLog(v float64, up bool) float64 {
	const near = 1e-9
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

// logTicks are marks at whole multiples of powers of ten; labels stand at the powers,
// and where those are few also at 2 and 5 times them.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	const near, digits = 1e-9, 3
	if !(low > 0) || !(high > low) {
		return nil
	}
	decades := math.Log10(high / low)
	every := int(math.Ceil(decades / 10)) // powers of ten from label to label
	for exponent := math.Floor(math.Log10(low) + near); ; exponent++ {
		power := math.Pow(10, exponent)
		for m := 1.0; m < 10; m++ {
			at := m * power
			if at > high*(1+near) {
				return ticks
			}
			if at < low*(1-near) || m > 1 && decades > 10 {
				continue
			}
			t := plot.Tick{Value: at}
			if m == 1 && int(exponent)%every == 0 || decades < 2.5 && (m == 2 || m == 5) {
				t.Label = units.Digits(at, digits)
			}
			ticks = append(ticks, t)
		}
	}
}
