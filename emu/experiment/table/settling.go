package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Settled is the name of the statistic that Settling takes.
const Settled = "settled"

// TimeColumn is the column that a table over time has.
const TimeColumn = "time_s"

// Settling is how long a column takes to come to a value and stay there.
type Settling struct {
	Within float64 // share of the target by which it may differ
	Target float64 // Unknown for the mean of the last quarter of the time
}

// String says what it is: "settling time within 10%".
func (s Settling) String() string {
	text := fmt.Sprintf("settling time within %.4g%%", s.Within*100)
	if !math.IsNaN(s.Target) {
		text += fmt.Sprintf(" of %g", s.Target)
	}
	return text
}

// Of gives the time from the first row to the one from which on all are within bounds, for
// rows in any order. Numbers that are not known do not count. It is not known if there are
// none, or if the last one is out of bounds.
func (s Settling) Of(times, numbers []float64) float64 {
	type point struct{ t, x float64 }
	var all []point
	for i, t := range times {
		all = append(all, point{t, numbers[i]})
	}
	slices.SortStableFunc(all, func(a, b point) int { return cmp.Compare(a.t, b.t) })
	if len(all) == 0 {
		return Unknown
	}
	start, end := all[0].t, all[len(all)-1].t
	all = slices.DeleteFunc(all, func(p point) bool { return math.IsNaN(p.x) })
	target := s.Target
	if math.IsNaN(target) {
		var last []float64
		for _, p := range all {
			if p.t >= end-(end-start)/4 {
				last = append(last, p.x)
			}
		}
		target = floats.Sum(last) / float64(len(last)) // of none it is not known
	}
	since := Unknown
	for i := len(all) - 1; i >= 0 && math.Abs(all[i].x-target) <= s.Within*math.Abs(target); i-- {
		since = all[i].t - start
	}
	return since
}
