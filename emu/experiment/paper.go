package experiment

import "slices"

// PaperValue is what a paper says of a measure.
type PaperValue struct {
	Measure string            `json:"measure"`
	At      map[string]string `json:"at,omitempty"` // level by factor; a factor that is not there may have any
	Bin     string            `json:"bin,omitempty"`
	Value   float64           `json:"value"` // in the unit of the measure
	Source  string            `json:"source"`
	Origin  Origin            `json:"origin"`
}

// Origin is how a paper's value is known.
type Origin string

// The origins.
const (
	Printed    Origin = "text"       // printed in the paper's text or in a table of it
	ReadOff    Origin = "figure"     // read off one of its figures
	Remembered Origin = "remembered" // from memory: nothing may be asserted of it
)

// Origins are all of them.
var Origins = []Origin{Printed, ReadOff, Remembered}

// paperOf finds what the paper says of a measure at some levels; nil for nothing. What
// names more factors goes before what names fewer.
func (e *Experiment) paperOf(measure, bin string, levels []int) (best *PaperValue) {
	for i := range e.Paper {
		p := &e.Paper[i]
		if p.Measure != measure || p.Bin != bin || !e.covers(p.At, levels) {
			continue
		}
		if best == nil || len(p.At) > len(best.At) {
			best = p
		}
	}
	return best
}

// paperHasBins tells whether the paper says a measure bin by bin.
func (e *Experiment) paperHasBins(measure string) bool {
	return slices.ContainsFunc(e.Paper, func(p PaperValue) bool { return p.Measure == measure && p.Bin != "" })
}

// covers tells whether levels are those that at names.
func (e *Experiment) covers(at map[string]string, levels []int) bool {
	for f, l := range levels {
		if want, ok := at[e.Factors[f].Name]; ok && want != e.Factors[f].Levels[l] {
			return false
		}
	}
	return true
}
