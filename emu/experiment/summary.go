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
	Measure string       `json:"measure"`
	Bin     string       `json:"bin,omitempty"`
	Levels  []string     `json:"levels"` // by factor
	Values  []float64    `json:"values"` // by seed, of the cells that ran; those not known left out
	Mean    table.Number `json:"mean"`
	// CI is half the width of the mean's 95% confidence interval by Student's t
	// distribution; NaN where there are fewer than two values.
	CI    table.Number `json:"ci95"`
	Paper *PaperValue  `json:"paper,omitempty"`
	Ratio table.Number `json:"ratio"` // Mean over Paper's value
}

// interval gives the mean of values and half the width of its 95% confidence interval.
func interval(values []float64) (mean, half float64) {
	switch n := len(values); n {
	case 0:
		return table.Unknown, table.Unknown
	case 1:
		return values[0], table.Unknown
	default:
		mean, deviation := stat.MeanStdDev(values, nil)
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
		return mean, t * deviation / math.Sqrt(float64(n))
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
				mean, half := interval(s.Values)
				s.Mean, s.CI, s.Ratio = table.Number(mean), table.Number(half), table.Number(table.Unknown)
				if s.Paper = e.paperOf(measure.Name, bin, levels); s.Paper != nil {
					s.Ratio = table.Number(mean / s.Paper.Value)
				}
				all = append(all, s)
			}
		}
	}
	return all
}
