package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/chart"
)

// Experiment is one figure or claim that a baseline must meet.
type Experiment struct {
	Name  string   // of its directory
	Title string   // heading of its table
	Labs  []string // names of lab files, without .yaml
	Quick []string // labs of the quick form, in the same order; nil means Labs
	// QuickFor is how long runs of the quick form last; 0 means as long as their files say.
	QuickFor units.Time
	Measure  func(runs []*Run) (*Outcome, error)
}

// Outcome is the result of an experiment.
type Outcome struct {
	Rows     []Row
	Pictures map[string]*chart.Picture // by file name, without .png
}

// Relation is how our value should relate to the expected one.
type Relation string

const (
	About   Relation = "about"    // the ratio is 1 within the tolerance
	AtMost  Relation = "at most"  // the ratio is at most 1
	AtLeast Relation = "at least" // the ratio is at least 1
)

// Row is one line of a table: a value from a paper, or one that follows from its algorithm,
// beside ours.
type Row struct {
	What      string   `json:"what"`
	Unit      string   `json:"unit,omitempty"`
	Relation  Relation `json:"relation"`
	Expected  float64  `json:"expected"`
	Tolerance float64  `json:"tolerance,omitempty"` // of About: share of Expected
	Source    string   `json:"source"`
	// Remembered means that Expected was written down from memory, without the source. It
	// asserts nothing.
	Remembered bool    `json:"remembered,omitempty"`
	Ours       float64 `json:"ours"`
	// Why is the reason for a difference. Known is the range of the ratio if it is known, least
	// and greatest.
	Why   string      `json:"why,omitempty"`
	Known *[2]float64 `json:"known_ratio,omitempty"`
}

// Ratio returns our value over the expected one.
func (r *Row) Ratio() float64 { return r.Ours / r.Expected }

// Agrees reports whether our value is as expected.
func (r *Row) Agrees() bool {
	switch q := r.Ratio(); r.Relation {
	case AtMost:
		return q <= 1
	case AtLeast:
		return q >= 1
	default:
		return math.Abs(q-1) <= r.Tolerance
	}
}

// Sound reports whether our value is as expected or differs only as far as is explained. A
// Remembered row is always sound.
func (r *Row) Sound() bool {
	if r.Remembered || r.Known == nil {
		return r.Remembered || r.Agrees()
	}
	q := r.Ratio()
	return q >= r.Known[0] && q <= r.Known[1]
}

func (r *Row) verdict() string {
	var v string
	switch {
	case r.Agrees():
		v = "agrees"
	case r.Sound():
		v = "differs"
	default:
		v = "DIFFERS, not explained"
	}
	if r.Why != "" {
		v += ": " + r.Why
	}
	return v
}

// table prints rows as Markdown.
func table(rows []Row) string {
	var b strings.Builder
	b.WriteString("| What | Expected (source) | Ours | Ratio | Verdict |\n| --- | --- | --- | --- | --- |\n")
	for i := range rows {
		r := &rows[i]
		expected := number(r.Expected, r.Unit)
		if r.Relation != About {
			expected = string(r.Relation) + " " + expected
		}
		source := r.Source
		if r.Remembered {
			source += "; remembered"
		}
		fmt.Fprintf(&b, "| %s | %s (%s) | %s | %.3g | %s |\n", r.What, expected, source, number(r.Ours, r.Unit), r.Ratio(), r.verdict())
	}
	return b.String()
}

func number(v float64, unit string) string {
	s := fmt.Sprintf("%.4g", v)
	if unit == "" {
		return s
	}
	return s + " " + unit
}
