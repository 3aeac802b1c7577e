package experiment

import "slices"

// PaperValue is a paper's value of a measure.
type PaperValue struct {
	Measure string            `json:"measure"`
	At      map[string]string `json:"at,omitempty"` // level by factor; a missing factor matches any level
	Bin     string            `json:"bin,omitempty"`
	Value   float64           `json:"value"`  // in the unit of the measure
	Source  string            `json:"source"` // where the paper has it, or how it is computed
	Origin  Origin            `json:"origin"`
}

// Origin says how a paper's value is known.
type Origin string

// The origins.
const (
	Printed    Origin = "text"       // printed in the paper's text or in one of its tables
	ReadOff    Origin = "figure"     // read off one of its figures
	Computed   Origin = "computed"   // follows from the paper's algorithm: Source says how
	Remembered Origin = "remembered" // from memory: no expectation may use it
)

// Origins lists all origins.
var Origins = []Origin{Printed, ReadOff, Computed, Remembered}

// paperOf finds the paper's value of a measure at some levels; nil if there is none. A
// value that names more factors takes precedence.
func (e *Experiment) paperOf(measure, bin string, levels []int) (best *PaperValue) {
	for i := range e.Paper {
		p := &e.Paper[i]
		if p.Measure != measure || p.Bin != bin || !e.coversLevels(p.At, levels) {
			continue
		}
		if best == nil || len(p.At) > len(best.At) {
			best = p
		}
	}
	return best
}

// paperHasBins reports whether the paper gives a measure bin by bin.
func (e *Experiment) paperHasBins(measure string) bool {
	return slices.ContainsFunc(e.Paper, func(p PaperValue) bool { return p.Measure == measure && p.Bin != "" })
}

// coversLevels reports whether levels include all those that at names.
func (e *Experiment) coversLevels(at map[string]string, levels []int) bool {
	for f, l := range levels {
		if want, ok := at[e.Factors[f].Name]; ok && want != e.Factors[f].Levels[l] {
			return false
		}
	}
	return true
}
