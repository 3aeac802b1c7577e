package axis

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
)

// Even returns marks at multiples of 1, 2 or 5 times a power of ten from low to high. There
// are approximately `about` of them, at most one more, and their labels are exact. It
// returns none if high is not above low.
func Even(low, high float64, about int) (ticks []plot.Tick) {
	step, digits := evenStep((high - low) / float64(about))
	if step == 0 {
		return nil
	}
	for i := math.Ceil(low/step - near); i*step <= high+step*near; i++ {
		at := i*step + 0 // avoids -0
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%.*f", digits, at)})
	}
	return ticks
}

// evenStep returns the smallest of 1, 2 and 5 times a power of ten that is at least span,
// and the number of decimals in its multiples; 0 if span is not above 0.
func evenStep(span float64) (step float64, digits int) {
	if !(span > 0) || math.IsInf(span, 0) {
		return 0, 0
	}
	exponent := math.Floor(math.Log10(span))
	step = math.Pow(10, exponent)
	switch f := span / step; {
	case f > 5:
		step *= 10
		exponent++
	case f > 2:
		step *= 5
	case f > 1:
		step *= 2
	}
	return step, int(max(0, -exponent))
}
