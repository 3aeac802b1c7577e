package experiment

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/weftlab/weft/experiment/table"
)

// Difference is a measure, or a bin of it, in two results.
type Difference struct {
	Measure string       `json:"measure"`
	Bin     string       `json:"bin,omitempty"`
	Levels  []string     `json:"levels"`
	A       *Summary     `json:"a,omitempty"` // nil: only in the other result
	B       *Summary     `json:"b,omitempty"`
	Change  table.Number `json:"change"` // of the value: (B - A) / A
	// CI is half the width of the 95% confidence interval of the difference of the means, by
	// Welch's t test; unknown if one of them has fewer than two values.
	CI table.Number `json:"ci95"`
	// Beyond reports whether the difference exceeds that interval or, if the interval is
	// unknown, whether the values differ.
	Beyond bool `json:"beyond"`
}

// Compare compares two results measure by measure at the same levels. It fails if they have
// nothing in common.
func Compare(a, b *Report) ([]Difference, error) {
	var all []Difference
	names := func(r *Report) (out []string) {
		for i := range r.Factors {
			out = append(out, r.Factors[i].Name)
		}
		return out
	}
	if fa, fb := names(a), names(b); !slices.Equal(fa, fb) {
		return nil, fmt.Errorf("their factors differ: %s and %s", strings.Join(fa, ", "), strings.Join(fb, ", "))
	}
	match := func(s *Summary, in *Report) *Summary {
		for i := range in.Summaries {
			if o := &in.Summaries[i]; o.Measure == s.Measure && o.Bin == s.Bin && slices.Equal(o.Levels, s.Levels) {
				return o
			}
		}
		return nil
	}
	common := false
	for i := range a.Summaries {
		s := &a.Summaries[i]
		o := match(s, b)
		common = common || o != nil
		all = append(all, differenceOf(s, o))
	}
	for i := range b.Summaries {
		if s := &b.Summaries[i]; match(s, a) == nil {
			all = append(all, differenceOf(nil, s))
		}
	}
	if !common {
		return nil, errors.New("they have no measure in common at the same levels")
	}
	return all, nil
}

func differenceOf(a, b *Summary) Difference {
	unknown := table.Number(table.Unknown)
	d := Difference{A: a, B: b, Change: unknown, CI: unknown}
	s := a
	if s == nil {
		s = b
	}
	d.Measure, d.Bin, d.Levels = s.Measure, s.Bin, s.Levels
	if a == nil || b == nil {
		d.Beyond = true
		return d
	}
	d.Change = (b.Value - a.Value) / a.Value
	half, ok := welchInterval(a.Values, b.Values)
	if !ok {
		d.Beyond = !slices.Equal(a.Values, b.Values)
		return d
	}
	d.CI = table.Number(half)
	ma, mb := stat.Mean(a.Values, nil), stat.Mean(b.Values, nil)
	// The order of summation changes the last bits of a mean; that is no difference.
	noise := 1e-12 * math.Max(math.Abs(ma), math.Abs(mb))
	d.Beyond = math.Abs(mb-ma) > half+noise
	return d
}

// welchInterval returns half the width of the 95% confidence interval of the difference of two means,
// whose variances may differ.
func welchInterval(a, b []float64) (half float64, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return 0, false
	}
	va, vb := stat.Variance(a, nil)/float64(len(a)), stat.Variance(b, nil)/float64(len(b))
	if va+vb == 0 {
		return 0, true
	}
	freedom := (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(0.975) * math.Sqrt(va+vb), true
}

// WriteComparison prints the differences between two results; with showAll also those within
// their intervals.
func WriteComparison(w io.Writer, a, b *Report, all []Difference, showAll bool) {
	beyond := 0
	for i := range all {
		if all[i].Beyond {
			beyond++
		}
	}
	fmt.Fprintf(w, "a: %s (%s)\nb: %s (%s)\n%d of %d values differ by more than their 95%% confidence interval\n", a.Name, a.Version, b.Name, b.Version, beyond, len(all))
	if beyond == 0 && !showAll {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"", "measure", "bin"}
	for i := range a.Factors {
		head = append(head, a.Factors[i].Name)
	}
	fmt.Fprintln(t, "\n"+strings.Join(append(head, "a", "b", "change", "95% CI of b - a"), "\t"))
	for i := range all {
		d := &all[i]
		if !d.Beyond && !showAll {
			continue
		}
		mark := " "
		if d.Beyond {
			mark = "*"
		}
		unit := a.unitOf(d.Measure)
		side := func(s *Summary) string {
			if s == nil {
				return "missing"
			}
			return table.Format(unit, float64(s.Value), digits)
		}
		change, ci := "-", "-"
		if d.Change.IsKnown() {
			change = fmt.Sprintf("%+.2f%%", 100*float64(d.Change))
		}
		if d.CI.IsKnown() {
			ci = "± " + table.Format(unit, float64(d.CI), 2)
		}
		line := append([]string{mark, d.Measure, d.Bin}, d.Levels...)
		fmt.Fprintln(t, strings.Join(append(line, side(d.A), side(d.B), change, ci), "\t"))
	}
	t.Flush()
}

// unitOf returns the unit of a measure, for table.Format.
func (r *Report) unitOf(measure string) string {
	for i := range r.Measures {
		if r.Measures[i].Name == measure {
			return r.Measures[i].Unit
		}
	}
	return ""
}
