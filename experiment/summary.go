package experiment

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/weftlab/weft/experiment/table"
)

// Summary is a measure, or one bin of it, at one combination of levels, over all seeds.
type Summary struct {
	Measure string    `json:"measure"`
	Bin     string    `json:"bin,omitempty"`
	Levels  []string  `json:"levels"` // by factor
	Values  []float64 `json:"values"` // by seed, of the cells that ran, without unknown values
	// Value is the mean or median of Values: see Measure.Center.
	Value table.Number `json:"value"`
	// Low and High are the ends of the 95% confidence interval of Value. They are unknown
	// if there are too few values: a mean needs two, by Student's t distribution; a median
	// needs six, by the order of the values.
	Low   table.Number `json:"low95"`
	High  table.Number `json:"high95"`
	Paper *PaperValue  `json:"paper,omitempty"`
	Ratio table.Number `json:"ratio"` // Value over Paper's value
}

// Center is how the values of several seeds are combined.
type Center string

// The centers.
const (
	Mean   Center = "mean"
	Median Center = "median" // for values that fall into groups, as when seeds choose paths
)

// Centers lists all centers.
var Centers = []Center{Mean, Median}

// centerOf returns the center of values and the ends of its 95% confidence interval.
func (c Center) centerOf(values []float64) (value, low, high table.Number) {
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

// medianRank returns how many of n sorted values lie on each side of the 95% confidence
// interval of their median: the largest k such that n tosses of a fair coin give at most k
// heads in at most 2.5% of cases. It is -1 if there is none.
func medianRank(n int) int {
	b := distuv.Binomial{N: float64(n), P: 0.5}
	for k := 0; ; k++ {
		if b.CDF(float64(k)) > 0.025 {
			return k - 1
		}
	}
}

// Outcome is the outcome of a cell.
type Outcome struct {
	State State  `json:"state"`
	Error string `json:"error,omitempty"` // why it failed
	Log   string `json:"log,omitempty"`   // the end of its log
	Late  string `json:"late,omitempty"`  // why the machine did not keep up with it; "" if it did
	// Traffic says which of its modelled flows and transfers failed; "" if none did.
	Traffic string `json:"traffic_failures,omitempty"`
	// Growth is the growth of the backlog of its open-loop flows, as a share of what they offer;
	// unknown without such flows. See Report.Unsteady.
	Growth table.Number       `json:"backlog_growth"`
	Values map[string][]Value `json:"values,omitempty"`
}

// State is the state of a cell.
type State string

// The states of a cell.
const (
	Missing State = "missing" // it was not run, or did not finish
	Done    State = "done"
	Failed  State = "failed"
)

// SummarizeOutcomes summarizes the outcomes of all cells, by measure, combination and bin, in the
// order of the file.
func (e *Experiment) SummarizeOutcomes(outcomes []Outcome) (all []Summary) {
	for m := range e.Measures {
		measure := &e.Measures[m]
		for _, levels := range CombineLevels(e.Factors, e.Zip) {
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
					if v.Value.IsKnown() {
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
				s.Value, s.Low, s.High = measure.Center.centerOf(s.Values)
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
