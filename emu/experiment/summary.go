package experiment

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/weftlab/weft/emu/experiment/table"
)

// Summary is a measure, or one bin of it, at one combination of levels: what the seeds
// say together.
type Summary struct {
	Measure string    `json:"measure"`
	Bin     string    `json:"bin,omitempty"`
	Levels  []string  `json:"levels"` // by factor
	Values  []float64 `json:"values"` // by seed, of the cells that ran; those not known left out
	// Value is the mean of Values, or their median: see Measure.Center.
	Value table.Number `json:"value"`
	// Low and High are the ends of the 95% confidence interval of Value, not known where
	// there are too few values: two for a mean, by Student's t distribution; six for a
	// median, by the order of the values.
	Low   table.Number `json:"low95"`
	High  table.Number `json:"high95"`
	Paper *PaperValue  `json:"paper,omitempty"`
	Ratio table.Number `json:"ratio"` // Value over Paper's value
}

// Center is how the values of several seeds become one.
type Center string

// The centers.
const (
	Mean   Center = "mean"
	Median Center = "median" // for values that fall into groups, as where seeds choose ways
)

// Centers are all of them.
var Centers = []Center{Mean, Median}

// of gives the center of values and the ends of its 95% confidence interval.
func (c Center) of(values []float64) (value, low, high table.Number) {
	unknown := table.Number(table.Unknown)
	n := len(values)
	switch {
	case n == 0:
		return unknown, unknown, unknown
	case c == Median:
		sorted := slices.Sorted(slices.Values(values))
		value = table.Number(table.Quantile(sorted, 0.5))
		if k := medianRank(n); k >= 0 {
			return value, table.Number(sorted[k]), table.Number(sorted[n-1-k])
		}
		return value, unknown, unknown
	case n == 1:
		return table.Number(values[0]), unknown, unknown
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975) * deviation / math.Sqrt(float64(n))
	return table.Number(mean), table.Number(mean - half), table.Number(mean + half)
}

// medianRank is how many of n sorted values are below and above the 95% confidence interval
// of their median: the most that a fair coin tossed n times comes up with at most in 2.5% of
// cases. It is -1 where there is none.
func medianRank(n int) int {
	b := distuv.Binomial{N: float64(n), P: 0.5}
	for k := 0; ; k++ {
		if b.CDF(float64(k)) > 0.025 {
			return k - 1
		}
	}
}

// Outcome is what became of a cell.
type Outcome struct {
	State  State              `json:"state"`
	Error  string             `json:"error,omitempty"` // why it failed
	Log    string             `json:"log,omitempty"`   // the end of what it said
	Late   string             `json:"late,omitempty"`  // why the machine did not keep up with it; "" if it did
	Values map[string][]Value `json:"values,omitempty"`
}

// State is how far a cell has come.
type State string

// The states of a cell.
const (
	Missing State = "missing" // it was not run, or not to its end
	Done    State = "done"
	Failed  State = "failed"
)

// Summarize sums the outcomes of all cells up, by measure, combination and bin, in the
// order of the file.
func (e *Experiment) Summarize(outcomes []Outcome) (all []Summary) {
	for m := range e.Measures {
		measure := &e.Measures[m]
		for _, levels := range Combinations(e.Factors, e.Zip) {
			var bins []string
			values := map[string][]float64{}
			for i := range e.Cells {
				if !slices.Equal(e.Cells[i].Levels, levels) || outcomes[i].State != Done {
					continue
				}
				for _, v := range outcomes[i].Values[measure.Name] {
					if !slices.Contains(bins, v.Bin) {
						bins = append(bins, v.Bin)
					}
					if v.Value.Known() {
						values[v.Bin] = append(values[v.Bin], float64(v.Value))
					}
				}
			}
			if bins == nil {
				bins = []string{""} // none of its cells has run
			}
			for _, bin := range bins {
				s := Summary{Measure: measure.Name, Bin: bin, Values: values[bin]}
				for f, l := range levels {
					s.Levels = append(s.Levels, e.Factors[f].Levels[l])
				}
				s.Value, s.Low, s.High = measure.Center.of(s.Values)
				s.Ratio = table.Number(table.Unknown)
				if s.Paper = e.paperOf(measure.Name, bin, levels); s.Paper != nil {
					s.Ratio = s.Value / table.Number(s.Paper.Value)
				}
				all = append(all, s)
			}
		}
	}
	return all
}
