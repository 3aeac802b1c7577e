package experiment

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/file"
)

var (
	callPattern  = regexp.MustCompile(`\b([a-z]\w*)\(([^()]*)\)`)
	sharePattern = regexp.MustCompile(`\b(fairness|jain|share|use)\([^()]*\)\s*>=?\s*0\.9`)
	nearPattern  = regexp.MustCompile(`^\s*abs\(([a-z]\w*)\([^()]*\) (?:/ ([0-9.e]+) - 1|- ([0-9.e]+))\) < ([0-9.]+)\s*$`)
	boundPattern = regexp.MustCompile(`^\s*([a-z]\w*)\([^()]*\)\s*[<>]=?\s*([0-9.e+-]+)\s*$`)
)

// claimsSomething reports whether an expectation is about what a paper says: one of its parts
// uses a value of the paper, compares two values, bounds one to within a factor of two of the
// paper's value, expects a number to within a quarter, or fair shares, or full use of a link. That
// nothing is lost, that something moves, is no claim.
func claimsSomething(e *experiment.Experiment, text string) bool {
	for part := range strings.SplitSeq(text, " and ") {
		calls := map[string]bool{}
		for _, c := range callPattern.FindAllStringSubmatch(part, -1) {
			if c[1] == "paper" {
				return true
			}
			if e.FindMeasure(c[1]) != nil {
				calls[c[0]] = true
			}
		}
		if len(calls) > 1 || sharePattern.MatchString(part) {
			return true
		}
		if m := nearPattern.FindStringSubmatch(part); m != nil {
			within, _ := strconv.ParseFloat(m[4], 64)
			if from, err := strconv.ParseFloat(m[3], 64); err == nil {
				within /= from
			}
			if within <= 0.25 {
				return true
			}
		}
		m := boundPattern.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		bound, err := strconv.ParseFloat(m[2], 64)
		for i := range e.Paper {
			p := &e.Paper[i]
			if err == nil && p.Measure == m[1] && p.Origin != experiment.Remembered && bound >= p.Value/2 && bound <= 2*p.Value {
				return true
			}
		}
	}
	return false
}

// TestPapers_QuickFormsClaimSomething: the quick form of an experiment from a paper, which tests
// run, expects something of what the paper says. papers/systems is not from a paper.
func TestPapers_QuickFormsClaimSomething(t *testing.T) {
	t.Parallel()
	for _, x := range experimentsOfTheTree(t) {
		if !strings.HasPrefix(x.name, "papers/") || strings.HasPrefix(x.name, "papers/systems/") || !x.quick() {
			continue
		}
		e, err := file.Load(x.file, file.Options{Quick: true})
		if err != nil {
			t.Error(err)
			continue
		}
		full, err := file.Load(x.file, file.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		e.Paper = full.Paper // also of levels that the quick form leaves out
		claims := false
		var all []string
		for i := range e.Expect {
			all = append(all, e.Expect[i].Text)
			claims = claims || claimsSomething(e, e.Expect[i].Text)
		}
		if !claims {
			t.Errorf("%s: its quick form expects nothing of what the paper says: %q", x.name, all)
		}
	}
}

// TestClaimsSomething has expectations of either kind.
func TestClaimsSomething(t *testing.T) {
	e := &experiment.Experiment{
		Measures: []experiment.Measure{{Name: "rate"}, {Name: "lost"}},
		Paper:    []experiment.PaperValue{{Measure: "rate", Value: 1e9, Origin: experiment.Printed}, {Measure: "lost", Value: 1, Origin: experiment.Remembered}},
	}
	for text, want := range map[string]bool{
		`lost() == 0`:                false,
		`lost() == 0 and rate() > 0`: false,
		`rate() > 1e8`:               false,
		`lost() < 1`:                 false,
		`jain() > 0.5`:               false,
		`jain({system: "a"}) > 0.95`: true,
		`rate() > 8e8`:               true,
		`lost() == 0 and rate({system: "a"}) < 1.5e9`:   true,
		`rate({system: "a"}) > 2 * rate({system: "b"})`: true,
		`rate({system: "a"}) > 2 * lost()`:              true,
		`abs(rate() / paper("rate") - 1) < 0.1`:         true,
		`abs(rate() - 3) < 0.1`:                         true,
		`abs(rate() - 0.5) < 0.2`:                       false,
		`abs(rate() / 3.5 - 1) < 0.2`:                   true,
		`abs(rate() / 3.5 - 1) < 0.5`:                   false,
	} {
		if got := claimsSomething(e, text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
