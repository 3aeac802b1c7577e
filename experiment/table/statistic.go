package table

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/weftlab/weft/sim/fairness"
)

// Statistic reduces a list of numbers to one.
type Statistic struct {
	name string
	of   func(sorted []float64) float64
	keep bool // the statistic has the unit of the numbers
}

// String returns the statistic's name: "p99".
func (s Statistic) String() string { return s.name }

// KeepsUnit reports whether the statistic has the unit of its numbers: a count and a
// fairness index have no unit.
func (s Statistic) KeepsUnit() bool { return s.keep }

// Of returns the statistic of numbers in any order; unknown ones (NaN) are ignored.
// Without numbers count and sum are 0, and everything else is unknown. The slice may be
// reordered.
func (s Statistic) Of(numbers []float64) float64 {
	numbers = slices.DeleteFunc(numbers, math.IsNaN)
	slices.Sort(numbers)
	if len(numbers) == 0 && s.name != "count" && s.name != "sum" {
		return Unknown
	}
	return s.of(numbers)
}

var statistics = []Statistic{
	{"count", func(x []float64) float64 { return float64(len(x)) }, false},
	{"sum", floats.Sum, true},
	{"mean", func(x []float64) float64 { return stat.Mean(x, nil) }, true},
	{"min", func(x []float64) float64 { return x[0] }, true},
	{"max", func(x []float64) float64 { return x[len(x)-1] }, true},
	{"median", func(x []float64) float64 { return Quantile(x, 0.5) }, true},
	{"stddev", standardDeviation, true},
	{"deviation", meanDeviation, true},
	{"jain", jainIndex, false},
}

// ParseStatistic reads the name of a statistic: count, sum, mean, min, max, median,
// stddev (of the sample), deviation (the mean of the distances from the mean), jain (Jain's fairness index, 1/n to 1), or a percentile such as
// p50, p99 or p99.9.
func ParseStatistic(name string) (Statistic, error) {
	i := slices.IndexFunc(statistics, func(s Statistic) bool { return s.name == name })
	if i >= 0 {
		return statistics[i], nil
	}
	if text, ok := strings.CutPrefix(name, "p"); ok {
		if p, err := strconv.ParseFloat(text, 64); err == nil && p > 0 && p < 100 {
			return Statistic{name, func(x []float64) float64 { return Quantile(x, p/100) }, true}, nil
		}
	}
	return Statistic{}, fmt.Errorf("unknown statistic %q: must be one of %s, or a percentile such as p99", name, strings.Join(StatisticNames(), ", "))
}

// StatisticNames returns the names of the statistics except percentiles.
func StatisticNames() (names []string) {
	for _, s := range statistics {
		names = append(names, s.name)
	}
	return names
}

// Quantile returns the quantile q, 0 to 1, of at least one sorted number, with linear
// interpolation (type 7 of Hyndman and Fan, as in numpy and R).
func Quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func standardDeviation(x []float64) float64 {
	if len(x) < 2 {
		return Unknown
	}
	return stat.StdDev(x, nil)
}

func meanDeviation(x []float64) float64 {
	mean, sum := stat.Mean(x, nil), 0.0
	for _, v := range x {
		sum += math.Abs(v - mean)
	}
	return sum / float64(len(x))
}

func jainIndex(x []float64) float64 {
	return fairness.JainOf(len(x), floats.Sum(x), floats.Dot(x, x)) // NaN is Unknown
}
