package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Settled is the name of the statistic that Settling computes.
const Settled = "settled"

// TimeColumn is the column that a table over time has.
const TimeColumn = "time_s"

// Settling is the time that a column takes to reach a value and stay there.
type Settling struct {
	Within float64 // tolerance, as a share of the target
	Target float64 // Unknown means the mean of the last quarter of the time
}

// String describes the statistic: "settling time within 10%".
func (s Settling) String() string {
	text := fmt.Sprintf("settling time within %.4g%%", s.Within*100)
	if !math.IsNaN(s.Target) {
		text += fmt.Sprintf(" of %g", s.Target)
	}
	return text
}

// Of returns the time from the first row to the one after which all are within bounds, for
// rows in any order. Unknown numbers do not count. The result is unknown if there are no
// numbers, or if the last one is out of bounds.
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
		target = floats.Sum(last) / float64(len(last)) // unknown if there are none
	}
	since := Unknown
	for i := len(all) - 1; i >= 0 && math.Abs(all[i].x-target) <= s.Within*math.Abs(target); i-- {
		since = all[i].t - start
	}
	return since
}
