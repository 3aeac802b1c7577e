package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Names of the statistics of tables over time.
const (
	Settled = "settled" // Settling
	Reached = "reached" // Reaching
)

// Columns of a table over time. A row is a value at an instant, or over the interval before
// it.
const (
	TimeColumn     = "time_s"
	IntervalColumn = "interval_s" // length of the interval; not all such tables have it
)

// Timed is a statistic of a column over time. Its result is a time in seconds.
type Timed interface {
	// Of returns the statistic of rows in any order. Unknown numbers do not count. Intervals
	// are nil if the table has none.
	Of(times, intervals, numbers []float64) float64
	// String describes it: "settling time within 10%".
	String() string
}

// Reaching is the time that a column takes to meet a condition for the first time.
type Reaching struct {
	Until Bounds
	Text  string // the condition as it is written
}

// String describes the statistic: "time until <100KB".
func (r Reaching) String() string { return "time until " + r.Text }

// Of returns the time from the first row, or from the beginning of its interval, to the first
// row whose number is within the bounds. The result is unknown if there is none.
func (r Reaching) Of(times, intervals, numbers []float64) float64 {
	start, reached := math.Inf(1), math.Inf(1)
	for i, t := range times {
		begin := t
		if intervals != nil {
			begin -= intervals[i]
		}
		start = min(start, begin)
		if r.Until.Has(numbers[i]) {
			reached = min(reached, t)
		}
	}
	if math.IsInf(reached, 1) {
		return Unknown
	}
	return reached - start
}

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
func (s Settling) Of(times, _, numbers []float64) float64 {
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
