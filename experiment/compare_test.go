package experiment

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// TestCompare_FindsDifferencesBeyondTheInterval checks differences beyond and within the interval, and measures that only one
// of the two results has.
func TestCompare_FindsDifferencesBeyondTheInterval(t *testing.T) {
	result := func(shift float64) *Report {
		e, outcomes := example(t, func(system, load int, seed uint64) float64 {
			x := float64(10*(system+1)+load) + float64(seed)
			if system == 1 {
				x += shift
			}
			return x
		})
		return e.Report(e.ListJobs("v"), outcomes, "v", "")
	}
	a, b := result(0), result(5)
	b.Summaries = b.Summaries[:len(b.Summaries)-1]
	all, err := Compare(a, b)
	if err != nil || len(all) != 12 {
		t.Fatal(len(all), err)
	}
	for i := range all {
		d := &all[i]
		if want := d.Levels[0] == "b"; d.Beyond != want {
			t.Errorf("%s %s %v: beyond %v, want %v", d.Measure, d.Bin, d.Levels, d.Beyond, want)
		}
	}
	// Three values with a deviation of 1 on each side: four degrees of freedom, t is 2.77645.
	if d := all[2]; math.Abs(float64(d.CI)-2.77645*math.Sqrt(2./3)) > 1e-4 || math.Abs(float64(d.Change)-5./22) > 1e-9 {
		t.Errorf("%+v", d)
	}
	var text bytes.Buffer
	WriteComparison(&text, a, b, all, false)
	for _, want := range []string{"6 of 12 values differ", "+22.73%", "± 2.3us", "missing"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if same, err := Compare(a, result(0)); err != nil || same[0].Beyond {
		t.Error("the same result:", same[0], err)
	}
	b.Factors = b.Factors[:1]
	if _, err := Compare(a, b); err == nil || !strings.Contains(err.Error(), "system, load and system") {
		t.Error("other factors:", err)
	}
	b = result(0)
	b.Summaries = nil
	if _, err := Compare(a, b); err == nil || !strings.Contains(err.Error(), "in common") {
		t.Error("nothing in common:", err)
	}
}
