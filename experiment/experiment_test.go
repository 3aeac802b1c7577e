package experiment

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/experiment/table"
)

func statistic(t *testing.T, name string) table.Statistic {
	t.Helper()
	s, err := table.ParseStatistic(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// near compares numbers, which may be unknown.
var near = cmp.Comparer(func(a, b table.Number) bool {
	return !a.IsKnown() && !b.IsKnown() || math.Abs(float64(a-b)) <= 1e-5*math.Abs(float64(a))
})

var tables = table.Bundle{{Name: "flows", Columns: []table.Column{
	{Name: "from", Texts: []string{"h10", "h2", "h2", "h1"}},
	{Name: "size_bytes", Numbers: []float64{1000, 1000, 20_000, 1e6}},
	{Name: "fct_us", Numbers: []float64{10, 20, 30, 40}},
}}, {Name: "series", Columns: []table.Column{
	{Name: "time_s", Numbers: []float64{1, 1, 2, 2, 3, 3, 4, 4}},
	{Name: "port", Texts: []string{"a", "b", "a", "b", "a", "b", "a", "b"}},
	{Name: "rate_bps", Numbers: []float64{0, 100, 5, 95, 10, 100, 10, 105}},
}}}

// TestMeasures_EachWayOfMeasuring checks each way of measuring.
func TestMeasures_EachWayOfMeasuring(t *testing.T) {
	mean, sum, count, biggest := statistic(t, "mean"), statistic(t, "sum"), statistic(t, "count"), statistic(t, "max")
	all := []Measure{
		{Name: "plain", Of: "flows", Column: "fct_us", Stat: mean},
		{Name: "small", Of: "flows", Column: "fct_us", Stat: mean, Where: table.Filter{{Column: "size_bytes", Any: []string{"<10KB"}}}},
		{Name: "bins", Of: "flows", Column: "fct_us", Stat: mean, By: "size_bytes", Edges: []float64{0, 10_000, 100_000, math.Inf(1)}},
		{Name: "hosts", Of: "flows", Column: "fct_us", Stat: sum, By: "from"},
		{Name: "busiest", Of: "flows", Column: "fct_us", Stat: sum, Per: "from", Over: biggest},
		{Name: "number", Of: "flows", Column: "from", Stat: count},
		{Name: "settled", Of: "series", Column: "rate_bps", Timed: table.Settling{Within: 0.1, Target: table.Unknown}, By: "port"},
		{Name: "longest", Of: "series", Column: "rate_bps", Timed: table.Settling{Within: 0.1, Target: table.Unknown}, Per: "port", Over: biggest},
		{Name: "ratio", Expr: "bins / plain"},
		{Name: "half", Expr: "plain / 2"},
	}
	names := []string{}
	for i := range all {
		if all[i].Expr != "" {
			if err := all[i].CompileExpression(names); err != nil {
				t.Fatal(err)
			}
		}
		names = append(names, all[i].Name)
	}
	got, err := MeasureAll(all, tables)
	want := map[string][]Value{
		"plain": {{"", 25}}, "small": {{"", 15}},
		"bins":  {{"0B..10KB", 15}, {"10KB..100KB", 30}, {">=100KB", 40}},
		"hosts": {{"h1", 40}, {"h2", 50}, {"h10", 10}}, "busiest": {{"", 50}}, "number": {{"", 4}},
		"settled": {{"a", 2}, {"b", 0}}, "longest": {{"", 2}},
		"ratio": {{"0B..10KB", 0.6}, {"10KB..100KB", 1.2}, {">=100KB", 1.6}}, "half": {{"", 12.5}},
	}
	if diff := cmp.Diff(want, got, near); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for i, want := range []string{"fct_us", "fct_us", "fct_us", "fct_us", "fct_us", "", "time_s", "time_s", "", ""} {
		if got := all[i].Unit(); got != want {
			t.Errorf("%s has the unit %q, want %q", all[i].Name, got, want)
		}
	}
	for _, bad := range []struct {
		m    Measure
		want string
	}{
		{Measure{Name: "x", Of: "queues", Column: "a", Stat: mean}, `no table "queues"`},
		{Measure{Name: "x", Of: "flows", Column: "fct", Stat: mean}, `no column "fct"`},
		{Measure{Name: "x", Of: "flows", Column: "from", Stat: mean}, "only count applies"},
		{Measure{Name: "x", Of: "flows", Column: "fct_us", Stat: mean, By: "size_bytes"}, "give the edges"},
		{Measure{Name: "x", Of: "flows", Column: "fct_us", Stat: mean, By: "from", Edges: []float64{1, 2}}, "has no edges"},
		{Measure{Name: "x", Of: "flows", Column: "fct_us", Timed: table.Settling{}}, "is not over time"},
		{Measure{Name: "x", Of: "flows", Column: "from", Timed: table.Settling{}}, "only count applies to it"},
		{Measure{Name: "x", Of: "flows", Column: "fct_us", Stat: mean, Per: "size_bytes", Over: sum}, "per needs a column of texts"},
		{Measure{Name: "x", Of: "flows", Column: "fct_us", Stat: mean, Where: table.Filter{{Column: "to", Any: []string{"a"}}}}, `no column "to"`},
	} {
		if _, err := MeasureAll([]Measure{bad.m}, tables); err == nil || !strings.Contains(err.Error(), bad.want) || !strings.Contains(err.Error(), "measure x: ") {
			t.Errorf("%+v: %v, want %q", bad.m, err, bad.want)
		}
	}
}

// example is two systems at two loads with three seeds; of returns the values.
func example(t *testing.T, of func(system, load int, seed uint64) float64) (*Experiment, []Outcome) {
	t.Helper()
	e := &Experiment{
		Name: "x", Factors: []Factor{{"system", []string{"a", "b"}}, {"load", []string{"50%", "80%"}}}, Seeds: []uint64{1, 2, 3},
		Measures: []Measure{
			{Name: "fct", Title: "FCT", Of: "flows", Column: "fct_us", Stat: statistic(t, "mean"), Center: Mean},
			{Name: "sizes", Title: "by size", Of: "flows", Column: "fct_us", Stat: statistic(t, "p99"), By: "size_bytes", Edges: []float64{0, 1000, 2000}, Center: Mean},
		},
	}
	var outcomes []Outcome
	for _, levels := range CombineLevels(e.Factors, false) {
		for _, seed := range e.Seeds {
			e.Cells = append(e.Cells, Cell{Levels: levels, Seed: seed})
			x := table.Number(of(levels[0], levels[1], seed))
			outcomes = append(outcomes, Outcome{State: Done, Values: map[string][]Value{
				"fct": {{"", x}}, "sizes": {{"0B..1KB", x}, {"1KB..2KB", 2 * x}},
			}})
		}
	}
	return e, outcomes
}

// TestSummaries_HaveMeansAndIntervals checks means, intervals by Student's t, the paper's values and ratios.
// Cells that failed or did not run are left out.
func TestSummaries_HaveMeansAndIntervals(t *testing.T) {
	e, outcomes := example(t, func(system, load int, seed uint64) float64 { return float64(10*system + load + int(seed)) })
	e.Paper = []PaperValue{
		{Measure: "fct", Value: 100, Source: "all"},
		{Measure: "fct", At: map[string]string{"system": "b"}, Value: 24, Source: "b", Origin: ReadOff},
	}
	outcomes[0].State = Failed
	outcomes[3].State, outcomes[4].State = Missing, Missing
	got := e.SummarizeOutcomes(outcomes)
	if len(got) != 4+8 {
		t.Fatalf("%d summaries: %+v", len(got), got)
	}
	// Values 2 and 3; 11, 12 and 13; 12, 13 and 14. t(0.975) with 2 degrees of freedom is
	// 4.30265, with one 12.7062.
	unknown := table.Number(table.Unknown)
	want := []Summary{
		{Measure: "fct", Levels: []string{"a", "50%"}, Values: []float64{2, 3}, Value: 2.5, Low: 2.5 - 12.7062*0.5, High: 2.5 + 12.7062*0.5, Paper: &e.Paper[0], Ratio: 0.025},
		{Measure: "fct", Levels: []string{"a", "80%"}, Values: []float64{4}, Value: 4, Low: unknown, High: unknown, Paper: &e.Paper[0], Ratio: 0.04},
		{Measure: "fct", Levels: []string{"b", "50%"}, Values: []float64{11, 12, 13}, Value: 12, Low: table.Number(12 - 4.30265/math.Sqrt(3)), High: table.Number(12 + 4.30265/math.Sqrt(3)), Paper: &e.Paper[1], Ratio: 0.5},
		{Measure: "fct", Levels: []string{"b", "80%"}, Values: []float64{12, 13, 14}, Value: 13, Low: table.Number(13 - 4.30265/math.Sqrt(3)), High: table.Number(13 + 4.30265/math.Sqrt(3)), Paper: &e.Paper[1], Ratio: 13. / 24},
	}
	if diff := cmp.Diff(want, got[:4], near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := got[5]; s.Bin != "1KB..2KB" || s.Value != 5 {
		t.Errorf("the second bin of the first combination: %+v", s)
	}
}

// TestCenters_MedianHasItsInterval checks the median of the seeds and its interval against tables of order
// statistics: for 15 values it is from the fourth to the twelfth.
func TestCenters_MedianHasItsInterval(t *testing.T) {
	for n, rank := range map[int]int{1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 15: 3, 20: 5, 50: 17, 100: 39} {
		if got := medianRank(n); got != rank {
			t.Errorf("of %d values %d are below the interval, want %d", n, got, rank)
		}
	}
	values := []float64{9, 1, 8, 2, 7, 3, 6, 4, 5, 100}
	if v, low, high := Median.centerOf(values); v != 5.5 || low != 2 || high != 9 {
		t.Errorf("median %v, %v to %v", v, low, high)
	}
	if v, low, _ := Mean.centerOf([]float64{3}); v != 3 || low.IsKnown() {
		t.Errorf("mean of one: %v from %v", v, low)
	}
}

// TestExpectations_HoldOrSayWhyNot checks expectations that hold, those that do not and why, and invalid
// ones.
func TestExpectations_HoldOrSayWhyNot(t *testing.T) {
	e, outcomes := example(t, func(system, load int, seed uint64) float64 { return float64(10*(system+1) + load) })
	e.Paper = []PaperValue{
		{Measure: "fct", At: map[string]string{"system": "a", "load": "50%"}, Value: 11, Origin: Printed},
		{Measure: "fct", At: map[string]string{"system": "b", "load": "50%"}, Value: 11, Origin: Remembered},
		{Measure: "sizes", Bin: "0B..1KB", Value: 10, Origin: Printed},
		{Measure: "sizes", Bin: "1KB..2KB", Value: 20, Origin: Printed},
	}
	// Expressions of a measure without bins, and of one with its own bins.
	e.Measures = append(e.Measures, Measure{Name: "twice", Expr: "2 * fct"}, Measure{Name: "hosts", Of: "flows", Column: "fct_us", By: "from"})
	e.Paper = append(e.Paper, PaperValue{Measure: "twice", Value: 30, Origin: Printed}, PaperValue{Measure: "hosts", Bin: "h1", Value: 9, Origin: Printed})
	for i := range outcomes {
		if v := outcomes[i].Values; v != nil {
			v["twice"], v["hosts"] = []Value{{"", 2 * v["fct"][0].Value}}, []Value{{"h1", 8}}
		}
	}
	summaries := e.SummarizeOutcomes(outcomes)
	for _, c := range []struct {
		text string
		held bool
		why  string
	}{
		{`fct({system: "a"}) < fct({system: "b"})`, true, ""},
		{`fct({system: "a"}) * 2 == fct({system: "b"})`, false, "fct(system=a load=80%) is 11us, fct(system=b load=80%) is 21us"},
		{`fct({load: "80%"}) - fct({load: "50%"}) == 1`, true, ""},
		{`sizes({system: "a"}) < sizes({system: "b"})`, true, ""},
		{`sizes() > 1.5 * fct()`, false, "sizes(system=a load=50% 0B..1KB) is 10us"},
		{`sizes({bin: "1KB..2KB"}) == 2 * fct()`, true, ""},
		{`abs(fct({system: "a", load: "50%"}) / paper("fct", {system: "a", load: "50%"}) - 1) < 0.1`, true, ""},
		{`twice() < 2 * paper("twice")`, true, ""},
		{`hosts() < paper("hosts")`, true, ""},
		{`sizes({system: "a"}) < 1.2 * paper("sizes")`, true, ""},
		{`sizes() < 1.2 * paper("sizes")`, false, "sizes(system=b load=50% 1KB..2KB) is 40us, paper sizes(system=b load=50% 1KB..2KB) is 20us"},
		{`fct({system: "a", load: "50%"}) > 0 and true`, true, ""},
	} {
		x := Expectation{Text: c.text}
		if err := x.compileExpression(e); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		v := x.evaluateExpectation(e, summaries)
		if v.Held != c.held || !strings.Contains(strings.Join(v.Why, "\n"), c.why) || c.held && v.Why != nil {
			t.Errorf("%s: %+v, want %v with %q", c.text, v, c.held, c.why)
		}
	}
	for text, want := range map[string]string{
		`fct({sys: "a"}) > 0`:    `no factor "sys"`,
		`fct({system: "c"}) > 0`: `no level "c": it has a, b`,
		`speed() > 0`:            "speed",
		`fct()`:                  "bool",
		`fct( > 0`:               "unexpected",
		`fct() > paper("fct", {system: "b", load: "50%"})`: "remembered",
		`fct() > paper("fct", {system: "b", load: "80%"})`: "no paper value",
		`fct() > paper("x")`: "no such measure",
	} {
		x := Expectation{Text: text}
		if err := x.compileExpression(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	// An expectation about cells that did not run does not hold.
	for i := range outcomes {
		outcomes[i].State = Missing
	}
	x := Expectation{Text: `fct({system: "a"}) < fct({system: "b"})`}
	if err := x.compileExpression(e); err != nil {
		t.Fatal(err)
	}
	if v := x.evaluateExpectation(e, e.SummarizeOutcomes(outcomes)); v.Held {
		t.Errorf("nothing has run: %+v", v)
	}
}

// TestCombinations_AllOrTogether checks all combinations, and zip.
func TestCombinations_AllOrTogether(t *testing.T) {
	f := []Factor{{"x", []string{"1", "2"}}, {"y", []string{"a", "b"}}}
	if got := CombineLevels(f, false); !cmp.Equal(got, [][]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
		t.Error("each with each:", got)
	}
	if got := CombineLevels(f, true); !cmp.Equal(got, [][]int{{0, 0}, {1, 1}}) {
		t.Error("together:", got)
	}
	if got := CombineLevels(nil, false); !cmp.Equal(got, [][]int{{}}) {
		t.Error("nothing varies:", got)
	}
}

// TestReport_HasFailures checks the text and the JSON; both report failures and expectations that did
// not hold.
func TestReport_HasFailures(t *testing.T) {
	e, outcomes := example(t, func(system, load int, seed uint64) float64 { return float64(10*(system+1)+load) + float64(seed)/10 })
	e.Paper = []PaperValue{{Measure: "fct", At: map[string]string{"system": "a"}, Value: 10, Source: "Fig. 3", Origin: ReadOff}}
	x := Expectation{Text: `fct({system: "a"}) > fct({system: "b"})`}
	if err := x.compileExpression(e); err != nil {
		t.Fatal(err)
	}
	e.Expect = []Expectation{x}
	outcomes[11] = Outcome{State: Failed, Error: "it took longer than 1s"}
	r := e.Report(e.ListJobs("v1"), outcomes, "weft v1", "weft experiment x.yaml")
	var text, first bytes.Buffer
	r.WriteText(&text)
	for _, want := range []string{
		"12 cells, 3 seeds", "FCT: mean of fct_us of flows\n", "system  load  mean", "10.2us   ± 250ns  3  10us   1.02   Fig. 3, read off",
		"0B..1KB", "1 of 12 cells FAILED\n  system=b load=80% seed=3: it took longer than 1s", "FAILS  fct(", "fct(system=a load=50%) is 10.2us, fct(system=b load=50%) is 20.2us",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if err := r.WriteJSON(&first); err != nil {
		t.Fatal(err)
	}
	back, err := ReadReport(first.Bytes())
	if err != nil || !back.HasFailed() {
		t.Fatal(err, back.HasFailed())
	}
	var second bytes.Buffer
	if err := back.WriteJSON(&second); err != nil || second.String() != first.String() {
		t.Errorf("read and written again it is another: %v\n%s", err, cmp.Diff(first.String(), second.String()))
	}
	if a, b := e.ListJobs("v1"), e.ListJobs("v2"); a[0].Key == b[0].Key || a[0].Key == a[1].Key || a[0].Key != e.ListJobs("v1")[0].Key {
		t.Error("keys do not tell jobs and versions apart")
	}
}
