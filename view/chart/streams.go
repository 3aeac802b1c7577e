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

// streamMeasure is a quantity with one value for each flow of packets.
type streamMeasure struct {
	measure
	of     func(*workload.Result) float64
	silent bool // it is also defined for flows of which nothing arrived
}

func formatSpan(s float64) string { return report.Span(units.Time(s * float64(units.Second))) }

// secondsBetween returns the time between two instants in seconds, without the
// rounding error of their difference.
func secondsBetween(start, end float64) float64 { return math.Round((end-start)*1e12) / 1e12 }

func formatShare(v float64) string { return units.FormatPercent(v, 3) }

var streamMeasures = []streamMeasure{
	{measure{"completion", "completion time", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return secondsBetween(x.Start, x.End) }, false},
	{measure{"goodput", "goodput", figure.BitsPerSecond, report.Rate}, func(x *workload.Result) float64 { return float64(x.Goodput) }, false},
	{measure{"delay-mean", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayMean / 1e6 }, false},
	{measure{"delay-p50", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayP50 / 1e6 }, false},
	{measure{"delay-p99", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayP99 / 1e6 }, false},
	{measure{"delay-max", "one-way delay", figure.Seconds, formatSpan}, func(x *workload.Result) float64 { return x.DelayMax / 1e6 }, false},
	{measure{"loss", "packets lost", figure.Ratio, formatShare}, func(x *workload.Result) float64 { return x.LossShare }, true},
}

// streamPictures lists the values of What and the measures that each shows.
var streamPictures = []struct {
	name     string
	measures []string
}{
	{"completion", []string{"completion"}},
	{"delay", []string{"delay-p50", "delay-p99", "delay-max"}},
	{"goodput", []string{"goodput"}},
	{"loss", []string{"loss"}},
}

// StreamPictures returns what can be drawn from records of flows of packets.
func StreamPictures() (names []string) {
	for _, p := range streamPictures {
		names = append(names, p.name)
	}
	return names
}

// Streams is a summary of the records of flows of packets in one file.
type Streams struct {
	File     string                   `json:"file"`
	Flows    int                      `json:"flows"`
	Silent   int                      `json:"silent"` // flows of which nothing arrived; only loss counts them
	Measures map[string]*Distribution `json:"measures"`
}

// streamReview is a review of records of flows of packets.
type streamReview struct {
	Files []Streams `json:"stream_records"`

	options Options
	drawn   []*streamMeasure
}

func openStreams(files []string, o Options) (*streamReview, error) {
	if err := noSeries(streamRecords, &o); err != nil {
		return nil, err
	}
	if o.LogY {
		return nil, errors.New("a share of flows is not shown on a logarithmic axis: --log-y is for series and slowdown-by-size")
	}
	if o.What == "" {
		o.What = streamPictures[0].name
	}
	r := &streamReview{options: o}
	for _, p := range streamPictures {
		if p.name == o.What {
			for i := range streamMeasures {
				if slices.Contains(p.measures, streamMeasures[i].name) {
					r.drawn = append(r.drawn, &streamMeasures[i])
				}
			}
		}
	}
	if r.drawn == nil {
		return nil, fmt.Errorf("--what: unknown %q for records of flows of packets: must be one of %s", o.What, strings.Join(StreamPictures(), ", "))
	}
	for _, f := range files {
		results, err := readRecords(f, workload.ReadCSV, workload.ReadJSON)
		if err != nil {
			return nil, err
		}
		r.Files = append(r.Files, sumUpStreams(f, results))
	}
	return r, nil
}

func sumUpStreams(file string, results []workload.Result) Streams {
	s := Streams{File: file, Flows: len(results), Measures: map[string]*Distribution{}}
	for i := range results {
		if results[i].Received == 0 {
			s.Silent++
		}
	}
	for i := range streamMeasures {
		m := &streamMeasures[i]
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
func (r *streamReview) Write(w io.Writer) {
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: %d flows", f.File, f.Flows)
		if f.Silent > 0 {
			fmt.Fprintf(w, ", %d without arrivals; they count only for loss", f.Silent)
		}
		fmt.Fprintln(w)
		var rows []tableRow
		for i := range streamMeasures {
			m := &streamMeasures[i].measure
			rows = append(rows, tableRow{m, f.Measures[m.name]})
		}
		writeDistributions(w, "flows", rows)
	}
}

// Figure draws the cumulative distribution over the flows, with one line for
// each file and measure.
func (r *streamReview) Figure() (*figure.Figure, string, error) {
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
