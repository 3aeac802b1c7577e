package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/plot/plotter"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/traces/workload"
)

// measure is something that every flow has one value of.
type measure struct {
	name, label string
	of          func(*workload.Result) float64
	scales      []scale
	text        func(float64) string
	silent      bool // flows of which nothing arrived have it as well
}

func span(s float64) string { return report.Span(units.Time(s * float64(units.Second))) }

func micros(f func(*workload.Result) float64) func(*workload.Result) float64 {
	return func(x *workload.Result) float64 { return f(x) / 1e6 }
}

var measures = []measure{
	{"completion", "completion time", func(x *workload.Result) float64 { return math.Round((x.End-x.Start)*1e12) / 1e12 }, seconds, span, false},
	{"goodput", "goodput", func(x *workload.Result) float64 { return float64(x.Goodput) }, rates, report.Rate, false},
	{"delay-mean", "one-way delay", micros(func(x *workload.Result) float64 { return x.DelayMean }), seconds, span, false},
	{"delay-p50", "one-way delay", micros(func(x *workload.Result) float64 { return x.DelayP50 }), seconds, span, false},
	{"delay-p99", "one-way delay", micros(func(x *workload.Result) float64 { return x.DelayP99 }), seconds, span, false},
	{"delay-max", "one-way delay", micros(func(x *workload.Result) float64 { return x.DelayMax }), seconds, span, false},
	{"loss", "packets lost", func(x *workload.Result) float64 { return x.LossShare }, percent, func(v float64) string { return fmt.Sprintf("%.3g%%", 100*v) }, true},
}

// flowPictures are the names for What and the measures that each shows.
var flowPictures = []struct {
	name     string
	measures []string
}{
	{"completion", []string{"completion"}},
	{"delay", []string{"delay-p50", "delay-p99", "delay-max"}},
	{"goodput", []string{"goodput"}},
	{"loss", []string{"loss"}},
}

// FlowPictures are what of flow records can be drawn.
func FlowPictures() (names []string) {
	for _, p := range flowPictures {
		names = append(names, p.name)
	}
	return names
}

// percentiles are those that a table has.
var percentiles = []struct {
	name  string
	share float64
}{{"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}}

// Distribution is a measure over the flows of a file.
type Distribution struct {
	Unit string  `json:"unit"` // s, b/s or share
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`

	values []float64 // sorted
}

// Flows are the flow records of one file.
type Flows struct {
	File     string                   `json:"file"`
	Flows    int                      `json:"flows"`
	Silent   int                      `json:"silent"` // flows of which nothing arrived; only loss counts them
	Measures map[string]*Distribution `json:"measures"`
}

// flowReview is what there is to say of flow records.
type flowReview struct {
	Files []Flows `json:"flow_records"`

	options Options
	drawn   []measure
}

func openFlows(files []string, o Options) (*flowReview, error) {
	if len(o.Ports) > 0 || o.Class != "" || o.From != 0 || o.To != units.Never || o.Average != 0 {
		return nil, errors.New("flow records have no ports and no samples: --port, --class, --from, --to and --average are for series")
	}
	if o.LogY {
		return nil, errors.New("a share of flows is not shown on a logarithmic axis: --log-y is for series")
	}
	if o.What == "" {
		o.What = flowPictures[0].name
	}
	r := &flowReview{options: o}
	for _, p := range flowPictures {
		if p.name == o.What {
			for _, m := range measures {
				if slices.Contains(p.measures, m.name) {
					r.drawn = append(r.drawn, m)
				}
			}
		}
	}
	if r.drawn == nil {
		return nil, fmt.Errorf("--what: of flow records, %q is none of %s", o.What, strings.Join(FlowPictures(), ", "))
	}
	for _, f := range files {
		var results []workload.Result
		if err := read(f, func(in io.Reader) (err error) {
			if filepath.Ext(f) == ".json" {
				results, err = workload.ReadJSON(in)
			} else {
				results, err = workload.ReadCSV(in)
			}
			return err
		}); err != nil {
			return nil, err
		}
		if len(results) == 0 {
			return nil, fmt.Errorf("%s has no flows", f)
		}
		r.Files = append(r.Files, sumUp(f, results))
	}
	return r, nil
}

func sumUp(file string, results []workload.Result) Flows {
	s := Flows{File: file, Flows: len(results), Measures: map[string]*Distribution{}}
	for i := range results {
		if results[i].Received == 0 {
			s.Silent++
		}
	}
	for _, m := range measures {
		d := &Distribution{Unit: map[bool]string{true: "share", false: m.scales[len(m.scales)-1].unit}[m.name == "loss"]}
		if &m.scales[0] == &seconds[0] {
			d.Unit = "s"
		}
		for i := range results {
			if results[i].Received > 0 || m.silent {
				d.values = append(d.values, m.of(&results[i]))
			}
		}
		if len(d.values) == 0 {
			continue
		}
		slices.Sort(d.values)
		for _, v := range d.values {
			d.Mean += v / float64(len(d.values))
		}
		for i, p := range []*float64{&d.Min, &d.P50, &d.P90, &d.P99, &d.Max} {
			*p = d.at(percentiles[i].share)
		}
		s.Measures[m.name] = d
	}
	return s
}

// at is the least value that at least the given share of flows do not exceed.
func (d *Distribution) at(share float64) float64 {
	i := 0
	for i < len(d.values)-1 && float64(i+1) < share*float64(len(d.values)) {
		i++
	}
	return d.values[i]
}

// Write prints a table of percentiles over the flows.
func (r *flowReview) Write(w io.Writer) {
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: %d flows", f.File, f.Flows)
		if f.Silent > 0 {
			fmt.Fprintf(w, ", of %d nothing arrived; they count only for loss", f.Silent)
		}
		fmt.Fprintln(w)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprint(t, "over flows\tmean")
		for _, p := range percentiles {
			fmt.Fprint(t, "\t", p.name)
		}
		fmt.Fprintln(t)
		for _, m := range measures {
			d := f.Measures[m.name]
			if d == nil {
				continue
			}
			fmt.Fprintf(t, "%s\t%s", m.name, m.text(d.Mean))
			for _, v := range []float64{d.Min, d.P50, d.P90, d.P99, d.Max} {
				fmt.Fprint(t, "\t", m.text(v))
			}
			fmt.Fprintln(t)
		}
		t.Flush()
	}
}

// Picture draws the cumulative distribution over the flows: one line for each
// file and measure.
func (r *flowReview) Picture() (*Picture, string, error) {
	type curve struct {
		name string
		d    *Distribution
	}
	var curves []curve
	low, high := 0.0, 0.0
	for _, f := range r.Files {
		for _, m := range r.drawn {
			d := f.Measures[m.name]
			if d == nil {
				continue
			}
			var parts []string
			if len(r.Files) > 1 {
				parts = append(parts, strings.TrimSuffix(filepath.Base(f.File), filepath.Ext(f.File)))
			}
			if len(r.drawn) > 1 {
				parts = append(parts, strings.TrimPrefix(m.name, "delay-"))
			}
			curves = append(curves, curve{strings.Join(parts, " "), d})
			high = max(high, d.Max)
			if i, _ := slices.BinarySearchFunc(d.values, 0, func(v float64, _ int) int { return cmp.Compare(v, 1e-300) }); i < len(d.values) {
				if v := d.values[i]; low == 0 || v < low {
					low = v
				}
			}
		}
	}
	switch {
	case len(curves) == 0:
		return nil, "", errors.New("nothing arrived of any flow")
	case len(curves) > MaxLines:
		return nil, "", fmt.Errorf("%d lines are more than the %d that a picture has: name fewer files", len(curves), MaxLines)
	case r.options.LogX && high == 0:
		return nil, "", errors.New("all values are 0: there is nothing to show on a logarithmic axis")
	}
	m := r.drawn[0]
	x := fit(m.scales, high)
	p := &Picture{
		Width: r.options.Width, Height: r.options.Height, Steps: plotter.PostStep,
		X: Axis{Label: m.label + " [" + x.unit + "]", Max: max(high/x.per*1.02, 1e-9)},
		Y: Axis{Label: "share of flows", Max: 1.02},
	}
	if high == 0 {
		p.X.Max = 1
	}
	if r.options.LogX {
		p.X.Log = true
		p.X.Min, p.X.Max = decades(low/x.per, high/x.per)
	}
	if len(r.drawn) > 1 {
		p.Title = m.label + " of each flow"
	}
	for _, c := range curves {
		p.Lines = append(p.Lines, Line{Name: c.name, Points: c.d.cdf(p.X.Min, x.per, p.X.Max)})
	}
	return p, "", nil
}

// cdf gives the steps of the distribution, no more than a picture can show.
func (d *Distribution) cdf(from, per, to float64) plotter.XYs {
	const most = 4000
	n := len(d.values)
	points := plotter.XYs{{X: from, Y: 0}}
	for i, v := range d.values {
		if i == n-1 || v != d.values[i+1] && (n <= most || i%(n/most) == 0) {
			points = append(points, plotter.XY{X: v / per, Y: float64(i+1) / float64(n)})
		}
	}
	return append(points, plotter.XY{X: to, Y: 1})
}
