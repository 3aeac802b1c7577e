package experiment

import "github.com/weftlab/weft/emu/experiment/table"

// Plot is a picture that an experiment draws.
type Plot struct {
	Name    string
	Title   string
	Kind    PlotKind
	Measure string // what is drawn; of CDF and Time it is Of and Column instead
	X       string // Line, Bars and Heat: the factor along the x axis
	Y       string // Heat: the factor along the y axis
	Panels  string // factor that has a panel for each of its levels; "" for one panel
	Of      string // CDF and Time: table
	Column  string
	Where   table.Filter
	Split   string // CDF and Time: column of texts that has a line for each of its values
	LogX    bool
	LogY    bool
}

// PlotKind is a kind of picture.
type PlotKind string

// The kinds.
const (
	CDF  PlotKind = "cdf"  // cumulative distribution of a column, all seeds together
	Bins PlotKind = "bins" // a measure with bins: bins along the x axis
	Line PlotKind = "line" // a measure over a factor
	Bars PlotKind = "bars" // likewise, with bars
	Heat PlotKind = "heat" // a measure over two factors
	Time PlotKind = "time" // a column over time, of the first seed
)

// PlotKinds are all of them.
var PlotKinds = []PlotKind{CDF, Bins, Line, Bars, Heat, Time}

// Lines are the factors whose combinations have a line each: those that stand neither
// along an axis nor for panels.
func (e *Experiment) Lines(p *Plot) (factors []int) {
	for f := range e.Factors {
		if name := e.Factors[f].Name; name != p.X && name != p.Y && name != p.Panels && len(e.Factors[f].Levels) > 1 {
			factors = append(factors, f)
		}
	}
	return factors
}
