package draw

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/view/figure"
)

// example is two systems at two loads with two seeds. A cell's fct is 10 times the number of
// its system times that of its load, in microseconds; the flows in its table take this time
// and twice as long.
func example(t *testing.T) (*experiment.Experiment, *experiment.Report, []experiment.Job, *experiment.Store) {
	t.Helper()
	mean, err := table.ParseStatistic("mean")
	if err != nil {
		t.Fatal(err)
	}
	e := &experiment.Experiment{
		Name: "x", Factors: []experiment.Factor{{Name: "system", Levels: []string{"a", "b"}}, {Name: "load", Levels: []string{"50%", "80%"}}}, Seeds: []uint64{1, 2},
		Measures: []experiment.Measure{
			{Name: "fct", Title: "FCT", Of: "flows", Column: "fct_us", Stat: mean, Center: experiment.Mean},
			{Name: "sizes", Title: "by size", Of: "flows", Column: "fct_us", Stat: mean, By: "size_bytes", Edges: []float64{0, 1000, 1e6}, Center: experiment.Mean},
			{Name: "hosts", Title: "by host", Of: "flows", Column: "fct_us", Stat: mean, By: "from", Center: experiment.Mean},
		},
		Paper: []experiment.PaperValue{{Measure: "fct", At: map[string]string{"system": "a", "load": "50%"}, Value: 5, Origin: experiment.ReadOff}},
	}
	store := experiment.NewStore(filepath.Join(t.TempDir(), "cells"))
	var outcomes []experiment.Outcome
	for _, levels := range experiment.CombineLevels(e.Factors, false) {
		for _, seed := range e.Seeds {
			e.Cells = append(e.Cells, experiment.Cell{Levels: levels, Seed: seed, Lab: []byte(experiment.DescribeLevels(e.Factors, levels))})
			x := float64(10*(levels[0]+1)) * float64(levels[1]+1)
			b := table.Bundle{{Name: "flows", Columns: []table.Column{
				{Name: "from", Texts: []string{"h1", "h2"}}, {Name: "size_bytes", Numbers: []float64{500, 5000}},
				{Name: "fct_us", Numbers: []float64{x, 2 * x}}, {Name: "time_s", Numbers: []float64{0, float64(seed)}},
			}}}
			values, err := experiment.MeasureAll(e.Measures, b)
			if err != nil {
				t.Fatal(err)
			}
			outcomes = append(outcomes, experiment.Outcome{State: experiment.Done, Values: values})
			var zip bytes.Buffer
			if err := b.WriteZip(&zip); err != nil {
				t.Fatal(err)
			}
			if err := store.Put(e.ListJobs("v")[len(outcomes)-1].Key, zip.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
	}
	jobs := e.ListJobs("v")
	return e, e.Report(jobs, outcomes, "v", ""), jobs, store
}

// names returns the names of a panel's series, with the sources of a paper's values.
func names(p *figure.Panel) (all []string) {
	for _, s := range p.Series {
		all = append(all, strings.TrimSuffix(s.Name+"|"+s.Reference, "|"))
	}
	return all
}

// TestFigures_DrawTheirKind checks what each kind of picture draws.
func TestFigures_DrawTheirKind(t *testing.T) {
	e, r, jobs, store := example(t)
	d := &drawer{e, r, jobs, store}
	draw := func(p experiment.Plot) *figure.Figure {
		t.Helper()
		f, err := d.figureOf(&p)
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		return f
	}
	line := draw(experiment.Plot{Kind: experiment.Line, Measure: "fct", X: "load"})
	p := &line.Panels[0]
	if diff := cmp.Diff([]string{"a", "a|" + figure.ReadOff, "b"}, names(p)); diff != "" || p.X.Unit != figure.Ratio || p.Y.Unit != figure.Seconds || p.Y.Label != "FCT" {
		t.Errorf("line: %+v %+v\n%s", p.X, p.Y, diff)
	}
	// The mean of 10 and 20 us, and so on.
	if s := p.Series[0]; !cmp.Equal(s.X, figure.Values{0.5, 0.8}) || !near(s.Y, 15e-6, 30e-6) {
		t.Errorf("line a: %+v", s)
	}
	if s := p.Series[1]; !near(s.Y[:1], 5e-6) || !math.IsNaN(s.Y[1]) {
		t.Errorf("what the paper says: %+v", s)
	}
	bars := draw(experiment.Plot{Kind: experiment.Bars, Measure: "fct", X: "system", Panels: "load"})
	if p := &bars.Panels[1]; len(bars.Panels) != 2 || p.Title != "load 80%" || p.Kind != figure.Bars || !cmp.Equal(p.X.Names, []string{"a", "b"}) || !near(p.Series[0].Y, 30e-6, 60e-6) || p.Series[0].X != nil {
		t.Errorf("bars: %+v", bars.Panels)
	}
	bins := draw(experiment.Plot{Kind: experiment.Bins, Measure: "sizes"})
	if bins.Names != "system, load" {
		t.Errorf("the names of the lines are %q", bins.Names)
	}
	if p := &bins.Panels[0]; p.Kind != figure.Lines || !cmp.Equal(p.X.Names, []string{"0B..1KB", "1KB..1MB"}) || !cmp.Equal(names(p), []string{"a, 50%", "a, 80%", "b, 50%", "b, 80%"}) || !near(p.Series[3].Y, 40e-6, 80e-6) {
		t.Errorf("bins: %+v", p)
	}
	if p := &draw(experiment.Plot{Kind: experiment.Bins, Measure: "hosts"}).Panels[0]; p.Kind != figure.Bars || !cmp.Equal(p.X.Names, []string{"h1", "h2"}) {
		t.Errorf("bins of texts: %+v", p)
	}
	heat := draw(experiment.Plot{Kind: experiment.Heat, Measure: "fct", X: "load", Y: "system"})
	if p := &heat.Panels[0]; len(p.Matrix) != 2 || !near(p.Matrix[1], 30e-6, 60e-6) {
		t.Errorf("heat: %+v", p)
	}
	cdf := draw(experiment.Plot{Kind: experiment.CDF, Of: "flows", Column: "fct_us", Panels: "load", Split: "from"})
	if p := &cdf.Panels[0]; p.Y.Label != "share of flows" || cdf.Names != "system, from" || !cmp.Equal(names(p), []string{"a, h1", "a, h2", "b, h1", "b, h2"}) || !near(p.Series[1].X[:1], 20e-6) {
		t.Errorf("cdf: %v %+v", names(p), p.Series[1])
	}
	time := draw(experiment.Plot{Kind: experiment.Time, Of: "flows", Column: "fct_us", Where: table.Filter{{Column: "from", Any: []string{"h2"}}}})
	if p := &time.Panels[0]; len(p.Series) != 4 || !cmp.Equal(p.Series[0].X, figure.Values{1}) || p.Steps != figure.Before {
		t.Errorf("time, of the first seed: %+v", p)
	}
	gap := draw(experiment.Plot{Kind: experiment.Time, Of: "flows", Column: "time_s", LogY: true})
	if y := gap.Panels[0].Series[0].Y; len(y) != 2 || !math.IsNaN(y[0]) || y[1] != 1 {
		t.Errorf("0 on a logarithmic axis: %v", y)
	}
}

// TestCaptions_SayWhatIsSeen: a caption says what is on the axes, what the lines are, and what the
// marks around points mean.
func TestCaptions_SayWhatIsSeen(t *testing.T) {
	e, r, jobs, store := example(t)
	d := &drawer{e, r, jobs, store}
	for _, c := range []struct {
		p    experiment.Plot
		want string
	}{
		{experiment.Plot{Kind: experiment.Line, Measure: "fct", X: "load", Title: "Load"}, "Load. FCT (mean of fct_us of flows) over load, mean of 2 seeds; a line for each system. Error bars are 95% confidence intervals; an arrow means that one goes on beyond the axis. Hollow: values for comparison, from the sources in the tables."},
		{experiment.Plot{Kind: experiment.Bars, Measure: "hosts", X: "system", Panels: "load"}, "by host (mean of fct_us of flows by from) over system, mean of 2 seeds; a panel for each load. Error bars are 95% confidence intervals; an arrow means that one goes on beyond the axis."},
		{experiment.Plot{Kind: experiment.Bins, Measure: "sizes"}, "by size (mean of fct_us of flows by size_bytes) by size, mean of 2 seeds; a line for each system, load. Error bars are 95% confidence intervals; an arrow means that one goes on beyond the axis."},
		{experiment.Plot{Kind: experiment.Heat, Measure: "fct", X: "load", Y: "system"}, "FCT (mean of fct_us of flows) for each load and system, mean of 2 seeds."},
		{experiment.Plot{Kind: experiment.CDF, Of: "flows", Column: "fct_us", Split: "from"}, "Cumulative distribution of fct over the flows of 2 seeds; a line for each system, load, from."},
		{experiment.Plot{Kind: experiment.Time, Of: "queue-series", Column: "tx_bps"}, "rate sent over time, seed 1; a line for each system, load."},
	} {
		if got := d.captionOf(&c.p); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.p.Kind, got, c.want)
		}
	}
}

func near(got figure.Values, want ...float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i] < want[i]*(1-1e-9) || got[i] > want[i]*(1+1e-9) {
			return false
		}
	}
	return true
}

// TestPictures_AreDrawnInEachFormat checks that each picture is drawn in each format, and that one that cannot be drawn
// is named without affecting the others.
func TestPictures_AreDrawnInEachFormat(t *testing.T) {
	e, r, jobs, store := example(t)
	e.Plots = []experiment.Plot{
		{Name: "line", Title: "a title", Kind: experiment.Line, Measure: "fct", X: "load"},
		{Name: "none", Kind: experiment.CDF, Of: "flows", Column: "fct_us", Where: table.Filter{{Column: "from", Any: []string{"h9"}}}},
		{Name: "column", Kind: experiment.CDF, Of: "flows", Column: "fct"},
		{Name: "text", Kind: experiment.CDF, Of: "flows", Column: "from"},
		{Name: "heat", Kind: experiment.Heat, Measure: "fct", X: "load", Y: "system"},
	}
	dir := t.TempDir()
	drawn, err := DrawPlots(e, r, jobs, store, dir)
	if err == nil || len(drawn) != 2 || drawn[0].Title != "a title" || !bytes.Contains(drawn[1].SVG, []byte("<svg")) {
		t.Fatalf("%d drawn: %v", len(drawn), err)
	}
	for _, want := range []string{"picture none: no row of flows matches where", `picture column: table flows has no column "fct"`, "picture text: from of table flows is text"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	for _, name := range []string{"line.png", "line.svg", "line.pdf", "heat.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none.png")); err == nil {
		t.Error("none.png is there")
	}
}
