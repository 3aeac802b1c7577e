package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/view/figure"
)

// flowMeasure is a quantity with one value per flow.
type flowMeasure struct {
	measure
	of     func(*workload.Result) float64
	silent bool // it is also defined for flows of which nothing arrived
}

func formatSpan(s float64) string { return report.Span(units.Time(s * float64(units.Second))) }

// secondsBetween returns the time between two instants in seconds, without the
// rounding error of their difference.
func secondsBetween(start, end float64) float64 { return math.Round((end-start)*1e12) / 1e12 }

func formatShare(v float64) string { return units.FormatPercent(v, 3) }

var flowMeasures = []flowMeasure{
	{measure{"completion", "completion time", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return secondsBetween(x.Start, x.End) }, false},
	{measure{"goodput", "goodput", figure.BitsPerSecond, report.Rate}, func(x *workload.Result) float64 { return float64(x.Goodput) }, false},
	{measure{"delay-mean", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayMean / 1e6 }, false},
	{measure{"delay-p50", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayP50 / 1e6 }, false},
	{measure{"delay-p99", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayP99 / 1e6 }, false},
	{measure{"delay-max", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayMax / 1e6 }, false},
	{measure{"loss", "packets lost", figure.Ratio, formatShare}, func(x *workload.Result) float64 { return x.LossShare }, true},
}

// flowPictures lists the values of What and the measures that each shows.
var flowPictures = []struct {
	name     string
	measures []string
}{
	{"completion", []string{"completion"}},
	{"delay", []string{"delay-p50", "delay-p99", "delay-max"}},
	{"goodput", []string{"goodput"}},
	{"loss", []string{"loss"}},
}

// FlowPictures returns what can be drawn from flow records.
func FlowPictures() (names []string) {
	for _, p := range flowPictures {
		names = append(names, p.name)
	}
	return names
}

// Flows is a summary of the flow records in one file.
type Flows struct {
	File     string                   `json:"file"`
	Flows    int                      `json:"flows"`
	Silent   int                      `json:"silent"` // flows of which nothing arrived; only loss counts them
	Measures map[string]*Distribution `json:"measures"`
}

// flowReview is a review of flow records.
type flowReview struct {
	Files []Flows `json:"flow_records"`

	options Options
	drawn   []*flowMeasure
}

func openFlows(files []string, o Options) (*flowReview, error) {
	if err := noSeries(flowRecords, &o); err != nil {
		return nil, err
	}
	if o.LogY {
		return nil, errors.New("a share of flows is not shown on a logarithmic axis: --log-y is for series and slowdown-by-size")
	}
	if o.What == "" {
		o.What = flowPictures[0].name
	}
	r := &flowReview{options: o}
	for _, p := range flowPictures {
		if p.name == o.What {
			for i := range flowMeasures {
				if slices.Contains(p.measures, flowMeasures[i].name) {
					r.drawn = append(r.drawn, &flowMeasures[i])
				}
			}
		}
	}
	if r.drawn == nil {
		return nil, fmt.Errorf("--what: unknown %q for flow records: must be one of %s", o.What, strings.Join(FlowPictures(), ", "))
	}
	for _, f := range files {
		results, err := readRecords(f, workload.ReadCSV, workload.ReadJSON)
		if err != nil {
			return nil, err
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
	for i := range flowMeasures {
		m := &flowMeasures[i]
		var values []weighted
		for i := range results {
			if results[i].Received > 0 || m.silent {
				values = append(values, weighted{m.of(&results[i]), 1})
			}
		}
		if d := distributionOf(m.unit, values); d != nil {
			s.Measures[m.name] = d
		}
	}
	return s
}

// Write prints a table of percentiles over the flows.
func (r *flowReview) Write(w io.Writer) {
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: %d flows", f.File, f.Flows)
		if f.Silent > 0 {
			fmt.Fprintf(w, ", %d without arrivals; they count only for loss", f.Silent)
		}
		fmt.Fprintln(w)
		var rows []tableRow
		for i := range flowMeasures {
			m := &flowMeasures[i].measure
			rows = append(rows, tableRow{m, f.Measures[m.name]})
		}
		writeDistributions(w, "flows", rows)
	}
}

// Figure draws the cumulative distribution over the flows, with one line for
// each file and measure.
func (r *flowReview) Figure() (*figure.Figure, string, error) {
	var curves []curve
	for _, f := range r.Files {
		for _, m := range r.drawn {
			d := f.Measures[m.name]
			if d == nil {
				continue
			}
			var parts []string
			if len(r.Files) > 1 {
				parts = append(parts, shortName(f.File))
			}
			if len(r.drawn) > 1 {
				parts = append(parts, strings.TrimPrefix(m.name, "delay-"))
			}
			curves = append(curves, curve{strings.Join(parts, " "), d})
		}
	}
	if len(curves) == 0 {
		return nil, "", errors.New("no packet of any flow arrived")
	}
	m, title := &r.drawn[0].measure, ""
	if len(r.drawn) > 1 {
		title = m.label + " of each flow"
	}
	f, err := drawCumulative(&r.options, title, m, "flows", curves)
	return f, "", err
}

// shortName returns a file's name for a legend.
func shortName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}
