package experiment

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/weftlab/weft/experiment/table"
)

// Expectation is a condition on the means over all seeds, or the medians: see Measure.Center.
// It is an expression in which each measure is a function of levels, as in
//
//	goodput({system: "hpcc"}) > 0.9 * goodput({system: "dcqcn"})
//
// It must hold for every combination of the levels that it does not name, and for every bin
// if it names none (bin: "10KB..100KB"). paper(measure, levels) is the paper's value.
type Expectation struct {
	Text    string
	program *vm.Program
}

// Verdict is the result of an expectation.
type Verdict struct {
	Text string   `json:"text"`
	Held bool     `json:"held"`
	Why  []string `json:"why,omitempty"` // where it did not hold, with the values
}

// usedValue is a value that an expression used during its evaluation.
type usedValue struct {
	text  string
	value float64
}

// judge evaluates expressions over summaries.
type judge struct {
	e         *Experiment
	summaries []Summary
	levels    []int  // used where an expression names none
	bin       string // likewise
	used      []usedValue
	err       error
}

// expressionFunctions returns the functions that an expression may use.
func (j *judge) expressionFunctions() map[string]any {
	env := map[string]any{
		"abs": func(x float64) float64 { return max(x, -x) },
		"paper": func(measure string, at ...map[string]any) float64 {
			return j.valueOf(measure, true, at)
		},
	}
	for i := range j.e.Measures {
		name := j.e.Measures[i].Name
		env[name] = func(at ...map[string]any) float64 { return j.valueOf(name, false, at) }
	}
	return env
}

// recordError records the first error of an expression.
func (j *judge) recordError(format string, args ...any) float64 {
	if j.err == nil {
		j.err = fmt.Errorf(format, args...)
	}
	return table.Unknown
}

// valueOf returns a measure, or the paper's value of it.
func (j *judge) valueOf(measure string, paper bool, at []map[string]any) float64 {
	m := j.e.FindMeasure(measure)
	if m == nil {
		return j.recordError("paper(%q): there is no such measure", measure)
	}
	levels, bin := slices.Clone(j.levels), j.bin
	for _, a := range at {
		for _, key := range slices.Sorted(maps.Keys(a)) {
			text := fmt.Sprint(a[key])
			if key == "bin" {
				bin = text
				continue
			}
			f := j.e.FactorIndex(key)
			if f < 0 {
				return j.recordError("%s: there is no factor %q", measure, key)
			}
			if levels[f] = j.e.Factors[f].LevelIndex(text); levels[f] < 0 {
				return j.recordError("%s: %s has no level %q: it has %s", measure, key, text, strings.Join(j.e.Factors[f].Levels, ", "))
			}
		}
	}
	if m.By == "" && (m.Expr == "" || j.hasNoBins(measure)) {
		bin = ""
	}
	text := measure + "(" + strings.TrimSpace(DescribeLevels(j.e.Factors, levels)+" "+bin) + ")"
	x := table.Unknown
	if paper {
		p := j.e.paperOf(measure, bin, levels)
		switch {
		case p == nil && j.ofOtherBins(measure, bin) && j.e.paperHasBins(measure):
			p = &PaperValue{Value: table.Unknown}
		case p == nil:
			return j.recordError("the file has no paper value of %s", text)
		case p.Origin == Remembered:
			return j.recordError("the paper's value of %s is remembered, so it cannot be used in an expectation", text)
		}
		text, x = "paper "+text, p.Value
	} else {
		names := make([]string, len(levels))
		for f, l := range levels {
			names[f] = j.e.Factors[f].Levels[l]
		}
		for i := range j.summaries {
			s := &j.summaries[i]
			if s.Measure == measure && slices.Equal(s.Levels, names) && (s.Bin == bin || s.Bin == "") {
				x = float64(s.Value)
			}
		}
	}
	j.used = append(j.used, usedValue{text, x})
	return x
}

// hasNoBins reports whether an expression turned out to have no bins. This is unknown before
// there is a result.
func (j *judge) hasNoBins(measure string) bool {
	known := false
	for i := range j.summaries {
		if s := &j.summaries[i]; s.Measure == measure {
			if known = true; s.Bin != "" {
				return false
			}
		}
	}
	return known
}

// ofOtherBins reports whether a measure does not have a bin: because no bin is selected yet,
// or because it belongs to another measure.
func (j *judge) ofOtherBins(measure, bin string) bool {
	if bin == "" {
		return true
	}
	return j.summaries != nil && !slices.ContainsFunc(j.summaries, func(s Summary) bool { return s.Measure == measure && s.Bin == bin })
}

// compileExpression parses an expectation and evaluates it once, which reveals unknown names.
func (x *Expectation) compileExpression(e *Experiment) error {
	j := &judge{e: e, levels: make([]int, len(e.Factors))}
	program, err := expr.Compile(x.Text, expr.Env(j.expressionFunctions()), expr.AsBool())
	if err != nil {
		return err
	}
	x.program = program
	if e.Zip && len(e.Factors) > 0 {
		j.levels = CombineLevels(e.Factors, true)[0]
	}
	if _, err := expr.Run(program, j.expressionFunctions()); err != nil {
		return err
	}
	return j.err
}

// NewExpectation parses an expectation of an experiment whose factors, measures and paper
// values are known.
func (e *Experiment) NewExpectation(text string) (Expectation, error) {
	x := Expectation{Text: text}
	err := x.compileExpression(e)
	return x, err
}

// evaluateExpectation evaluates an expectation.
func (x *Expectation) evaluateExpectation(e *Experiment, summaries []Summary) Verdict {
	v := Verdict{Text: x.Text, Held: true}
	seen := map[string]bool{}
	bins := []string{""}
	for i := range summaries {
		if b := summaries[i].Bin; !slices.Contains(bins, b) {
			bins = append(bins, b)
		}
	}
	answered := false
	for _, levels := range CombineLevels(e.Factors, e.Zip) {
		for _, bin := range bins {
			j := &judge{e: e, summaries: summaries, levels: levels, bin: bin}
			held, err := expr.Run(x.program, j.expressionFunctions())
			key, unknown := j.usedValues()
			switch {
			case seen[key]:
				continue
			case err == nil && j.err == nil && unknown && j.ofNoBin():
				continue // the measure has no such bin
			}
			seen[key], answered = true, true
			if err != nil || j.err != nil || unknown || held != true {
				v.Held = false
				v.Why = append(v.Why, j.explainFailure(err))
			}
		}
	}
	if !answered {
		v.Held, v.Why = false, []string{"none of the cells it refers to has run"}
	}
	return v
}

// usedValues identifies the values that were used; unknown reports whether some of them are
// unknown.
func (j *judge) usedValues() (key string, unknown bool) {
	for _, a := range j.used {
		key += a.text + "\n"
		unknown = unknown || math.IsNaN(a.value)
	}
	return key, unknown
}

// ofNoBin reports whether a measure that was used has bins, but not the current one.
func (j *judge) ofNoBin() bool {
	for _, a := range j.used {
		name, _, _ := strings.Cut(strings.TrimPrefix(a.text, "paper "), "(")
		if !math.IsNaN(a.value) {
			continue
		}
		has, bins := false, false
		for i := range j.summaries {
			if s := &j.summaries[i]; s.Measure == name {
				has = has || s.Bin == j.bin
				bins = bins || s.Bin != ""
			}
		}
		if bins && !has {
			return true
		}
	}
	return false
}

// explainFailure returns the values with which an expectation did not hold.
func (j *judge) explainFailure(err error) string {
	if err == nil {
		err = j.err
	}
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, a := range j.used {
		unit := ""
		name, _, _ := strings.Cut(strings.TrimPrefix(a.text, "paper "), "(")
		if m := j.e.FindMeasure(name); m != nil {
			unit = m.Unit()
		}
		words = append(words, a.text+" is "+table.Format(unit, a.value, 4))
	}
	return strings.Join(words, ", ")
}

// EvaluateExpectations evaluates all expectations.
func (e *Experiment) EvaluateExpectations(summaries []Summary) []Verdict {
	verdicts := make([]Verdict, len(e.Expect))
	for i := range e.Expect {
		verdicts[i] = e.Expect[i].evaluateExpectation(e, summaries)
	}
	return verdicts
}
