package figure

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/view/figure/canvas"
)

var (
	drawInto = flag.String("figures", "", "draw the examples into this directory, for people")
	update   = flag.Bool("update", false, "write what is drawn to testdata")
)

// all returns the examples and the oddities.
func all() map[string]*Figure {
	figures := examples()
	maps.Copy(figures, oddities())
	return figures
}

func write(t *testing.T, f *Figure, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestEveryFigure checks that each figure is drawn in all formats, in the requested width,
// with the same bytes each time and after a round trip through JSON, and that no coordinate
// is NaN.
func TestEveryFigure(t *testing.T) {
	for name, f := range all() {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			var read Figure
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			for _, format := range canvas.Formats {
				// PNGs take most of the time, and have little of their own that could be
				// wrong.
				if format == "png" && !slices.Contains([]string{"cdf", "bars", "right"}, name) && *drawInto == "" {
					continue
				}
				b := write(t, f, format)
				if !bytes.Equal(b, write(t, &read, format)) {
					t.Errorf("%s: other bytes", format)
				}
				if *drawInto != "" {
					if err := f.Save(filepath.Join(*drawInto, name+"."+format)); err != nil {
						t.Error(err)
					}
				}
				switch format {
				case "png":
					c, err := png.DecodeConfig(bytes.NewReader(b))
					width := f.Width
					if width == 0 {
						width = OneColumn
					}
					if err != nil || math.Abs(float64(c.Width)-width*dpi) > 1 {
						t.Errorf("%d pixels of width, %v", c.Width, err)
					}
				case "svg":
					for _, wrong := range []string{"NaN", "Inf"} {
						if bytes.Contains(b, []byte(wrong)) {
							t.Errorf("%s in the SVG", wrong)
						}
					}
				}
			}
		})
	}
}

// TestGolden compares pictures with approved ones. After a change of appearance, inspect
// them (-figures DIRECTORY), then use -update.
func TestGolden(t *testing.T) {
	for _, name := range []string{"cdf", "sizes-share", "steps", "bars", "heat", "panels", "odd-gaps"} {
		file := filepath.Join("testdata", name+".svg")
		got := write(t, all()[name], "svg")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("%s is drawn otherwise (-want +got):\n%.2000s", name, diff)
		}
	}
}

// TestErrors checks that errors name the place of what cannot be drawn, and that nothing is
// written.
func TestErrors(t *testing.T) {
	ok := Series{Name: "s", X: Values{1, 2}, Y: Values{3, 4}}
	panel := func(change func(*Panel)) *Figure {
		p := Panel{Title: "goodput", Kind: Lines, Series: []Series{ok}}
		change(&p)
		return &Figure{Panels: []Panel{{Kind: Lines, Series: []Series{ok}}, p}}
	}
	series := func(kind Kind, s Series) *Figure {
		return panel(func(p *Panel) { p.Kind, p.Series[0] = kind, s })
	}
	var many []Series
	for i := range 25 {
		many = append(many, Series{Name: strings.Repeat("x", i+1), X: Values{1}, Y: Values{1}})
	}
	heat := func(change func(*Panel)) *Figure {
		return panel(func(p *Panel) {
			*p = Panel{Kind: Heat, X: Axis{Names: []string{"a", "b"}}, Y: Axis{Names: []string{"c"}}, Matrix: []Values{{1, 2}}}
			change(p)
		})
	}
	for _, c := range []struct {
		f    *Figure
		want string
	}{
		{&Figure{}, "needs a panel"},
		{&Figure{Width: 0.2, Panels: []Panel{{}}}, "a width of 0.2 in"},
		{&Figure{Width: math.NaN(), Panels: []Panel{{}}}, "a width of NaN in"},
		{&Figure{Height: 100, Panels: []Panel{{}}}, "a height of 100 in"},
		{&Figure{FontSize: 1, Panels: []Panel{{}}}, "a font size of 1 pt"},
		{&Figure{Columns: -1, Panels: []Panel{{}}}, "-1 columns"},
		{&Figure{Legend: "inside", Panels: []Panel{{}}}, `legend "inside"`},
		{&Figure{Panels: []Panel{{Kind: Lines, Series: []Series{{X: Values{1}, Y: Values{math.NaN()}}}}}}, "nothing to draw"},
		{&Figure{Panels: []Panel{{Kind: Lines, Series: many}}}, "25 names of series"},
		{panel(func(p *Panel) { p.Kind = "pie" }), `panel 2 (goodput): unknown kind "pie": must be one of`},
		{panel(func(p *Panel) { p.Steps = "up" }), `steps "up"`},
		{panel(func(p *Panel) { p.Steps = After }), `steps are of kinds "time"`},
		{panel(func(p *Panel) { p.Series = nil }), "it has no series"},
		{panel(func(p *Panel) { p.Matrix = []Values{{1}} }), `a matrix and z are of kind "heat"`},
		{panel(func(p *Panel) { p.Kind = Bars }), "bars need x's names"},
		{panel(func(p *Panel) { p.Y.Names = []string{"a"} }), "y has names"},
		{panel(func(p *Panel) { p.Kind, p.X.Names = Time, []string{"a"} }), "has no names"},
		{panel(func(p *Panel) { p.Y.Scale = "cubic" }), `y: scale "cubic"`},
		{panel(func(p *Panel) { p.Y.Scale = Share }), `scale "share" is for x`},
		{panel(func(p *Panel) { p.Kind, p.X.Scale = Time, Share }), `scale "share" is for x`},
		{panel(func(p *Panel) { p.X.Min, p.X.Max = At(2), At(1) }), "x: min 2 is not below max 1"},
		{panel(func(p *Panel) { p.X.Max = At(math.Inf(1)) }), "cannot end at +Inf"},
		{panel(func(p *Panel) { p.X.Scale, p.X.Min = Log, At(0) }), "a logarithmic axis cannot end at 0"},
		{panel(func(p *Panel) { p.X.Names, p.X.Min = []string{"a"}, At(0) }), "no min and max"},
		{panel(func(p *Panel) { p.X.Names, p.X.Scale = []string{"a"}, Log }), "so it has no scale"},
		{panel(func(p *Panel) { p.X.Quantiles = Values{1} }), `quantiles are of scale "share"`},
		{panel(func(p *Panel) { p.X.Scale, p.X.Quantiles = Share, Values{2, 1} }), "quantile 2 is 1: they must ascend"},
		{panel(func(p *Panel) { p.X.Names = []string{"a"} }), "series 1 (s): x: value 2 is 2: x has the names 1 to 1 (a)"},
		{panel(func(p *Panel) { p.Kind, p.X.Names = Bars, []string{"a", "b"} }), "so they have no x"},
		{panel(func(p *Panel) { p.Kind, p.X.Names, p.Series[0].X = Bars, []string{"a"}, nil }), "y has 2 values, and x 1 names"},
		{panel(func(p *Panel) { p.Y.Scale, p.Series[0].Y = Log, Values{1, 0} }), "y: value 2 is 0, which a logarithmic axis cannot show"},
		{panel(func(p *Panel) { p.Series[0].Style.Marker = 9 }), "marker 9: say 1 to 8"},
		{series(Lines, Series{Name: "s", X: Values{1}, Y: Values{1, 2}}), "panel 2 (goodput): series 1 (s): x has 1 values, and y 2"},
		{series(Lines, Series{X: Values{1}, Y: Values{1}, Low: Values{1}}), "y has 1 values, low 1 and high 0"},
		{series(Lines, Series{X: Values{math.Inf(-1)}, Y: Values{1}}), "x: value 1 is infinite"},
		{series(Time, Series{X: Values{2, 1}, Y: Values{1, 1}}), "x: value 2, 1, is less than the one before, 2"},
		{series(CDF, Series{X: Values{1, 2}, Y: Values{0.5, 0.4}}), "y: value 2 is 0.4: shares must ascend"},
		{series(CDF, Series{X: Values{1, 2}, Y: Values{0.5, 2}}), "y: value 2 is 2"},
		{heat(func(p *Panel) { p.Series = []Series{ok} }), "a matrix, not series"},
		{heat(func(p *Panel) { p.X.Names = nil }), "needs x's and y's names"},
		{heat(func(p *Panel) { p.Matrix = nil }), "the matrix has 0 rows, and y 1 names"},
		{heat(func(p *Panel) { p.Matrix = []Values{{1}} }), "row 1 of the matrix has 1 values, and x 2 names"},
		{heat(func(p *Panel) { p.Z, p.Matrix[0][1] = &Axis{Scale: Log}, -1 }), "row 1: value 2 is -1"},
		{heat(func(p *Panel) { p.Z = &Axis{Names: []string{"a"}} }), "z has numbers"},
		{&Figure{Columns: 8, Panels: slices.Repeat(exampleBars([]string{"a"}).Panels, 8)}, "too narrow"},
		{&Figure{Height: 0.6, Panels: exampleBars([]string{"a", "b"}).Panels}, "too low"},
	} {
		var b bytes.Buffer
		if err := c.f.Write(&b, "svg"); err == nil || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
			t.Errorf("%d bytes, error %v, want %q", b.Len(), err, c.want)
		}
	}
}

// TestSave checks that a file is unchanged if the figure cannot be drawn, and that no other
// file is left beside it.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.svg")
	if err := exampleBarsLog().Save(file); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(before, write(t, exampleBarsLog(), "svg")) {
		t.Fatalf("%v", err)
	}
	if err := (&Figure{}).Save(file); err == nil || !strings.Contains(err.Error(), "a.svg: a figure needs a panel") {
		t.Errorf("%v", err)
	}
	if err := exampleBarsLog().Save(filepath.Join(dir, "a.jpg")); err == nil || !strings.Contains(err.Error(), "must end in .pdf, .png, .svg") {
		t.Errorf("%v", err)
	}
	if err := exampleBarsLog().Save(filepath.Join(dir, "none", "a.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	// A directory, which cannot be replaced.
	taken := filepath.Join(dir, "b.svg")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exampleBarsLog().Save(taken); err == nil {
		t.Error("a directory is replaced")
	}
	after, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%v", entries)
	}
}

// TestLooks checks that as many names as a figure may have can all be told apart in grey,
// and by colour and marker.
func TestLooks(t *testing.T) {
	grey, coloured, bars := map[[2]int]bool{}, map[[2]int]bool{}, map[[2]int]bool{}
	index := func(l look) (dash, marker, colour, hatch int) {
		dash = slices.IndexFunc(dashes, func(d []vg.Length) bool { return slices.Equal(d, l.dashes) })
		for i, m := range markers {
			if slices.Equal(m.corners, l.marker) {
				marker = i
			}
		}
		for i, h := range hatches {
			if slices.Equal(h, l.hatch) {
				hatch = i
			}
		}
		return dash, marker, slices.Index(canvas.Colours[:], l.colour), hatch
	}
	for i := range maxSeries {
		dash, marker, colour, hatch := index(newLook(i, Style{}, 1))
		grey[[2]int{dash, marker}], coloured[[2]int{colour, marker}], bars[[2]int{colour, hatch}] = true, true, true
	}
	if len(grey) != maxSeries || len(coloured) != maxSeries || len(bars) != maxSeries {
		t.Errorf("%d in grey, %d in colour, %d bars of %d", len(grey), len(coloured), len(bars), maxSeries)
	}
	if dash, marker, colour, hatch := index(newLook(5, Style{Dash: 1, Marker: 2, Colour: 3, Hatch: 4}, 1)); dash != 0 || marker != 1 || colour != 2 || hatch != 3 {
		t.Errorf("%d %d %d %d", dash, marker, colour, hatch)
	}
}

// TestOneNameOneLook checks that series with the same name look alike in all panels and
// share one entry, and that values read off a paper share one entry, unless they have no
// series of the same name.
func TestOneNameOneLook(t *testing.T) {
	s := func(name, reference string) Series {
		return Series{Name: name, X: Values{1}, Y: Values{1}, Reference: reference}
	}
	f := Figure{Panels: []Panel{
		{Kind: Lines, Series: []Series{s("a", ""), s("a", ReadOff), s("b", "")}},
		{Kind: Lines, Series: []Series{s("b", ""), s("b", ReadOff), s("c", "Fig. 4"), s("d", "")}},
	}}
	all := f.preparePanels()
	var texts []string
	for _, e := range f.legendEntries(all) {
		texts = append(texts, e.text)
	}
	if diff := cmp.Diff([]string{"a", "b", "c (Fig. 4)", "d", ReadOff}, texts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all[0].lines[2].look.colour != all[1].lines[0].look.colour || all[0].lines[0].look.colour != all[0].lines[1].look.colour || !all[0].lines[1].look.reference {
		t.Error("one name has several looks")
	}
}

// TestShareAxis checks that sizes that are quantiles are at their shares, that repeated
// sizes take consecutive positions, and that others are in between.
func TestShareAxis(t *testing.T) {
	got := placesAmong(Values{100, 1000, 1000, 1000, 1000, 1500, 2000, math.NaN(), 4000, 9000}, Values{200, 1000, 1000, 1000, 2000, 4000})
	want := Values{0.5, 2, 3, 4, 4, 4.5, 5, math.NaN(), 6, 6}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return a == b || a != a && b != b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSteps checks that steps extend into gaps as far as is known.
func TestSteps(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		steps Steps
		want  [][][2]float64
	}{
		{Straight, [][][2]float64{{{0, 0.1}, {0.1, 0.2}}, {{0.3, 0.4}}}},
		{After, [][][2]float64{{{0, 0.1}, {0.1, 0.1}, {0.1, 0.2}, {0.2, 0.2}}, {{0.3, 0.4}}}},
		{Before, [][][2]float64{{{0, 0.2}, {0.1, 0.2}}, {{0.2, 0.4}, {0.3, 0.4}}}},
	} {
		f := Figure{Panels: []Panel{{Kind: Time, Steps: c.steps, X: Axis{Min: At(0), Max: At(10)}, Y: Axis{Min: At(0), Max: At(10)},
			Series: []Series{{X: Values{0, 1, 2, 3}, Y: Values{1, 2, nan, 4}}}}}}
		d := f.preparePanels()[0]
		var got [][][2]float64
		for _, p := range d.splitIntoPaths(unit(), d.lines[0].x, d.lines[0].y) {
			var points [][2]float64
			for _, q := range p {
				points = append(points, [2]float64{float64(q.X), float64(q.Y)})
			}
			got = append(got, points)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.steps, diff)
		}
	}
}

func TestDistribution(t *testing.T) {
	x, y := Distribution(Values{3, 1, math.NaN(), 1, 2}, 4)
	if diff := cmp.Diff([]Values{{1, 2, 3}, {0.5, 0.75, 1}}, []Values{x, y}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if x, y := Distribution(nil, 4); len(x) != 0 || len(y) != 0 {
		t.Errorf("%v %v", x, y)
	}
	rapid.Check(t, func(t *rapid.T) {
		n, maxKept := rapid.IntRange(1, 3000).Draw(t, "n"), rapid.IntRange(4, 200).Draw(t, "most")
		values := make(Values, n)
		for i := range values {
			values[i] = rapid.Float64Range(0, 1).Draw(t, "value")
		}
		x, y := Distribution(values, maxKept)
		slices.Sort(values)
		distinct := len(slices.Compact(slices.Clone(values)))
		if len(x) > max(maxKept, min(distinct, n)) || n > maxKept && len(x) > maxKept || len(x) < min(maxKept, distinct)/4 {
			t.Fatalf("%d points of %d values, %d distinct, at most %d", len(x), n, distinct, maxKept)
		}
		for i := range x {
			below, _ := slices.BinarySearch(values, math.Nextafter(x[i], 2))
			if math.Abs(y[i]-float64(below)/float64(n)) > 1e-12 {
				t.Fatalf("a share of %v up to %v, want %v", y[i], x[i], float64(below)/float64(n))
			}
		}
		if x[0] != values[0] || x[len(x)-1] != values[n-1] || y[len(y)-1] != 1 {
			t.Fatalf("from %v to %v at %v", x[0], x[len(x)-1], y[len(y)-1])
		}
	})
}

func TestValuesInJSON(t *testing.T) {
	text, err := json.Marshal(Series{Name: "a", X: Values{1, 2.5e-7}, Y: Values{math.NaN(), 3}})
	if err != nil || string(text) != `{"name":"a","x":[1,2.5e-07],"y":[null,3]}` {
		t.Errorf("%s %v", text, err)
	}
	if _, err := json.Marshal(Values{math.Inf(1)}); err == nil || !strings.Contains(err.Error(), "value 1 is infinite") {
		t.Errorf("%v", err)
	}
	var v Values
	if err := json.Unmarshal([]byte(`["x"]`), &v); err == nil {
		t.Error("a word is a number")
	}
	if err := json.Unmarshal([]byte(`[]`), &v); err != nil || v == nil {
		t.Errorf("an empty column is none: %v", err)
	}
}

// TestResolution_IsThatOfTheFigure: PNG has the dots per inch that the figure asks for.
func TestResolution_IsThatOfTheFigure(t *testing.T) {
	f := &Figure{Width: 4, Height: 3, DPI: 96, Panels: []Panel{{Kind: Lines, Series: []Series{{X: Values{1, 2}, Y: Values{1, 2}}}}}}
	c, err := png.DecodeConfig(bytes.NewReader(write(t, f, "png")))
	if err != nil || c.Width != 384 || c.Height != 288 {
		t.Errorf("%d × %d pixels, %v", c.Width, c.Height, err)
	}
	f.DPI = 20
	if err := f.Check(); err == nil || !strings.Contains(err.Error(), "20 dpi: say 50 to 1200") {
		t.Errorf("error %v", err)
	}
}

// TestMarks_AreDrawnWithinTheAxis: marks within the axis are drawn, with their names as far as
// these do not overlap, and an axis of names has none.
func TestMarks_AreDrawnWithinTheAxis(t *testing.T) {
	p := Panel{Kind: Time, X: Axis{Min: At(0), Max: At(10)}, Series: []Series{{X: Values{0, 10}, Y: Values{1, 2}}}}
	p.Marks = []Mark{{X: 7, Name: "late"}, {X: 3, Name: "down", Bad: true}, {X: 3.1, Name: "near"}, {X: 12, Name: "beyond"}}
	text := string(write(t, &Figure{Panels: []Panel{p}}, "svg"))
	for name, want := range map[string]int{"late": 1, "down": 1, "near": 0, "beyond": 0} {
		if got := strings.Count(text, ">"+name+"<"); got != want {
			t.Errorf("%q is written %d times, want %d", name, got, want)
		}
	}
	if n := strings.Count(text, "stroke:#C0392B"); n != 1 {
		t.Errorf("%d red lines", n)
	}
	for _, c := range []struct {
		p    Panel
		want string
	}{
		{Panel{Kind: Bars, X: Axis{Names: []string{"a"}}, Series: []Series{{Y: Values{1}}}, Marks: []Mark{{X: 1}}}, "marks need an x of numbers"},
		{Panel{Kind: Lines, X: Axis{Scale: Log}, Series: []Series{{X: Values{1}, Y: Values{1}}}, Marks: []Mark{{Name: "zero"}}}, "mark 1 (zero): the axis cannot show 0"},
	} {
		if err := (&Figure{Panels: []Panel{c.p}}).Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// TestLinesOverTime_AreDashedWhereTheyCoverOthers: a line over time is solid, unless it lies on
// earlier lines; what lies on the axis covers nothing. Later lines are thinner.
func TestLinesOverTime_AreDashedWhereTheyCoverOthers(t *testing.T) {
	x := Values{0, 5, 10}
	all := (&Figure{Panels: []Panel{{Kind: Time, Series: []Series{
		{Name: "one", X: x, Y: Values{1, 4, 2}}, {Name: "zero", X: x, Y: Values{0, 0, 0}}, {Name: "two", X: x, Y: Values{1, 4, 2}},
		{Name: "other", X: x, Y: Values{3, 3, 3}}, {Name: "short", X: Values{7, 8}, Y: Values{3.2, 2.8}}, {Name: "flat", X: x, Y: Values{0, 0, 0}},
		{Name: "own", X: x, Y: Values{3, 2, 1}, Style: Style{Dash: 4}},
	}}}}).preparePanels()
	width := vg.Length(10)
	for i, covered := range []int{0, 0, 1, 0, 2, 0} {
		l := &all[0].lines[i]
		if got := all[0].countCovered(i); got != covered || !slices.Equal(l.look.dashes, overDashes[covered]) {
			t.Errorf("%s covers %d lines, want %d; dashes %v", l.name, got, covered, l.look.dashes)
		}
		if l.look.width >= width {
			t.Errorf("%s is not thinner than the line before it", l.name)
		}
		width = l.look.width
	}
	if own := &all[0].lines[6]; !slices.Equal(own.look.dashes, dashes[3]) {
		t.Errorf("a line that has dashes has others: %v", own.look.dashes)
	}
}

// TestSteps_OfADistributionAreDrawn: a distribution that is given with its shares may have
// steps, which need two corners for each value.
func TestSteps_OfADistributionAreDrawn(t *testing.T) {
	p := Panel{Kind: CDF, Steps: After, Series: []Series{{X: Values{0, 1, 2}, Y: Values{0, 0.5, 1}}}}
	f := &Figure{Panels: []Panel{p}}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	d, c := f.preparePanels()[0], unit()
	if got := d.splitIntoPaths(c, d.lines[0].x, d.lines[0].y); len(got) != 1 || len(got[0]) != 5 {
		t.Errorf("%v", got)
	}
}

// TestIntervals_AreCutAtZeroAndOnLogAxes: an interval does not bring an axis of values that are
// not below 0 there, nor add more than a decade to a logarithmic one.
func TestIntervals_AreCutAtZeroAndOnLogAxes(t *testing.T) {
	for _, c := range []struct {
		y, low, high Values
		scale        Scale
		bottom       float64
	}{
		{Values{1, 3}, Values{-5, 2}, Values{7, 4}, Linear, 0},
		{Values{-1, 3}, Values{-5, 2}, Values{7, 4}, Linear, -5 - 0.06*12},
		{Values{1, 3}, Values{-5, 2}, Values{7, 4}, Log, 0.1},
		{Values{1, 3}, Values{1e-9, 2}, Values{7, 4}, Log, 0.1},
		{Values{1, 3}, Values{0.5, 2}, Values{7, 4}, Log, 0.5},
	} {
		p := Panel{Kind: Lines, Y: Axis{Scale: c.scale}, Series: []Series{{X: Values{1, 2}, Y: c.y, Low: c.low, High: c.high}}}
		if got := (&Figure{Panels: []Panel{p}}).preparePanels()[0].y; math.Abs(got.low-c.bottom) > 1e-9 || got.high < 7 {
			t.Errorf("%v from %v, %q: the axis is from %v to %v, want from %v", c.y, c.low, c.scale, got.low, got.high, c.bottom)
		}
	}
}

// TestIntervals_OfSeveralSeriesAreBesideEachOther: series with intervals are moved apart, as far as
// there is room; a series without is not, and neither is a single one.
func TestIntervals_OfSeveralSeriesAreBesideEachOther(t *testing.T) {
	s := func(name string, wide float64) Series {
		return Series{Name: name, X: Values{1, 2, 2.5}, Y: Values{1, 2, 3}, Low: Values{1 - wide, 2, 3}, High: Values{1 + wide, 2, 3}}
	}
	paper := Series{Name: "b", X: Values{1}, Y: Values{1}, Reference: ReadOff}
	d := (&Figure{Panels: []Panel{{Kind: Lines, Series: []Series{s("a", 1), s("exact", 0), s("b", 1), paper}}}}).preparePanels()[0]
	c := unit()
	a, exact, b := d.shiftOfLine(c, 0), d.shiftOfLine(c, 1), d.shiftOfLine(c, 2)
	if a >= 0 || b != -a || exact != 0 || d.shiftOfLine(c, 3) != b || b-a > 2*capHalf {
		t.Errorf("shifts %v, %v, %v", a, exact, b)
	}
	if one := (&Figure{Panels: []Panel{{Kind: Lines, Series: []Series{s("a", 1), s("exact", 0)}}}}).preparePanels()[0]; one.shiftOfLine(c, 0) != 0 {
		t.Error("a single series is moved")
	}
}

// TestLegend_SaysWhatItsNamesAre: what the names are stands before them, or above if there is no
// room.
func TestLegend_SaysWhatItsNamesAre(t *testing.T) {
	entries := []entry{{text: "dcqcn"}, {text: "hpcc"}}
	beside := layOutTitled("system", entries, face{8}, 300, 2)
	above := layOutTitled("system", entries, face{8}, beside.size.X-1, 2)
	if plain := newKey(entries, face{8}, 300, 2); beside.title != "system:" || beside.size.Y != plain.size.Y || beside.size.X <= plain.size.X || above.size.Y <= plain.size.Y {
		t.Errorf("%+v\n%+v\n%+v", plain, beside, above)
	}
	if k := layOutTitled("", entries, face{8}, 300, 2); k.title != "" {
		t.Errorf("%+v", k)
	}
}
