package experiment

import "github.com/weftlab/weft/experiment/table"

// Plot is a picture that an experiment draws.
type Plot struct {
	Name    string
	Title   string
	Kind    PlotKind
	Measure string // what is drawn; CDF and Time use Of and Column instead
	X       string // Line, Bars and Heat: the factor along the x axis
	Y       string // Heat: the factor along the y axis
	Panels  string // factor with a panel for each of its levels; "" means one panel
	Of      string // CDF and Time: table
	Column  string
	Where   table.Filter
	Split   string // CDF and Time: text column with a line for each of its values
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
	Bars PlotKind = "bars" // likewise, as bars
	Heat PlotKind = "heat" // a measure over two factors
	Time PlotKind = "time" // a column over time, for the first seed
)

// PlotKinds lists all kinds.
var PlotKinds = []PlotKind{CDF, Bins, Line, Bars, Heat, Time}

// LineFactors returns the factors whose combinations have a line each: those that are
// neither on an axis nor used for panels.
func (e *Experiment) LineFactors(p *Plot) (factors []int) {
	for f := range e.Factors {
		if name := e.Factors[f].Name; name != p.X && name != p.Y && name != p.Panels && len(e.Factors[f].Levels) > 1 {
			factors = append(factors, f)
		}
	}
	return factors
}
