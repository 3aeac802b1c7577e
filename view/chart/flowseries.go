package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure"
)

// Flow is one queue pair, or one flow of an edge service, in one file.
type Flow struct {
	File     string            `json:"file"`
	NIC      string            `json:"nic"`
	QPN      uint32            `json:"qpn,omitempty"`
	Transfer string            `json:"transfer,omitempty"`
	Name     string            `json:"flow,omitempty"` // for a flow of an edge service
	Rows     uint64            `json:"rows"`
	From     units.Time        `json:"from"` // start of the first interval
	To       units.Time        `json:"to"`   // the last sample
	Values   []series.Measured `json:"values"`

	lines spread // of the quantity to draw
}

// spread is the range of a line's values.
type spread struct {
	known    bool
	min, max float64
}

func (s *spread) addValue(v float64) {
	if !s.known {
		s.known, s.min, s.max = true, v, v
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
}

func (f *Flow) seriesKey() series.Flow {
	return series.Flow{NIC: f.NIC, QPN: f.QPN, Transfer: f.Transfer, Name: f.Name}
}

// numberedName returns a unique name of the flow.
func (f *Flow) numberedName() string {
	if f.Name != "" {
		return f.NIC + " " + f.Name
	}
	return fmt.Sprintf("%s#%d", f.NIC, f.QPN)
}

// flowSeriesReview is a review of series of flows.
type flowSeriesReview struct {
	Flows []Flow `json:"flows"`

	files   []string
	options Options
	what    series.FlowQuantity
}

func openFlowSeries(files []string, o Options) (*flowSeriesReview, error) {
	if o.What == "" {
		o.What = "rate"
	}
	switch {
	case len(o.Ports) > 0 || o.Class != "":
		return nil, errors.New("a series of flows has no ports: --port and --class are for series of queues; choose flows with --flow")
	case o.LogX:
		return nil, errors.New("time is not shown on a logarithmic axis: --log-x is for records of flows and transfers")
	}
	for _, p := range o.Flows {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("%q is not a pattern: a [ needs its ]", p)
		}
	}
	r := &flowSeriesReview{files: files, options: o}
	var names []string
	from, to := units.Never, units.Time(0)
	for _, file := range files {
		at := map[series.Flow]int{}
		merger := newFlowMerger(o.Average)
		if err := r.readRows(file, func(x *series.FlowReader, what int, row *series.FlowRow) {
			from, to = min(from, row.At), max(to, row.At)
			i, known := at[row.Flow]
			if !known {
				i = -1
				f := Flow{File: file, NIC: row.NIC, QPN: row.QPN, Transfer: row.Transfer, Name: row.Name, From: row.At - row.Interval}
				for _, name := range f.requestNames() {
					if !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
				if r.isRequested(&f) {
					for _, q := range x.Quantities() {
						f.Values = append(f.Values, series.Measured{Name: q.Name, Unit: q.Unit})
					}
					i = len(r.Flows)
					r.Flows = append(r.Flows, f)
				}
				at[row.Flow] = i
			}
			if i < 0 || row.At < o.From || row.At > o.To {
				return
			}
			f := &r.Flows[i]
			if f.Rows == 0 {
				f.From = row.At - row.Interval
			}
			f.Rows++
			f.To = row.At
			for k, v := range row.Values {
				if !math.IsNaN(v) {
					f.Values[k].AddValue(v, row.Interval)
				}
			}
			if p, ok := merger.mergeRow(row, what, r.what.PerInterval); ok {
				f.lines.addValue(p.value)
			}
		}); err != nil {
			return nil, err
		}
	}
	if o.Average > 0 && !r.what.PerInterval {
		return nil, fmt.Errorf("--average is for goodput, received and sent, but %s is instantaneous", r.what)
	}
	r.Flows = slices.DeleteFunc(r.Flows, func(f Flow) bool { return f.Rows == 0 })
	return r, r.missingError(names, from, to)
}

// readRows calls each for the rows of a file, with the index of the requested quantity.
func (r *flowSeriesReview) readRows(file string, each func(x *series.FlowReader, what int, row *series.FlowRow)) error {
	return readFile(file, func(in io.Reader) error {
		x, err := series.NewFlowReader(in)
		if err != nil {
			return err
		}
		what, err := x.FindQuantity(r.options.What)
		if err != nil {
			return fmt.Errorf("--what: for this series of flows, %w", err)
		}
		r.what = x.Quantities()[what]
		return x.EachRow(func(row *series.FlowRow) error {
			each(x, what, row)
			return nil
		})
	})
}

// requestNames returns the names by which a flow can be requested.
func (f *Flow) requestNames() []string {
	host, _, _ := strings.Cut(f.NIC, ":")
	names := []string{host, f.NIC, f.numberedName()}
	if name := f.givenName(); name != "" {
		names = append(names, name)
	}
	return names
}

// givenName returns the name of the flow's transfer, or its own; "" if it has none.
func (f *Flow) givenName() string { return cmp.Or(f.Transfer, f.Name) }

// isRequested reports whether a flow is requested.
func (r *flowSeriesReview) isRequested(f *Flow) bool {
	return len(r.options.Flows) == 0 || slices.ContainsFunc(r.options.Flows, func(p string) bool {
		return slices.ContainsFunc(f.requestNames(), func(name string) bool { return matchesPattern(p, name) })
	})
}

// missingError returns the error for what was requested but does not exist.
func (r *flowSeriesReview) missingError(names []string, from, to units.Time) error {
	in := strings.Join(r.files, ", ")
	if len(names) == 0 {
		return fmt.Errorf("%s has no samples", in)
	}
	for _, p := range r.options.Flows {
		if !slices.ContainsFunc(names, func(name string) bool { return matchesPattern(p, name) }) {
			return fmt.Errorf("%s has no flow %q: %s", in, p, suggest.Hint(p, "its flows are", names))
		}
	}
	if len(r.Flows) == 0 {
		return fmt.Errorf("%s has no such sample from %v to %v: its samples cover %v to %v", in, r.options.From, r.options.To, from, to)
	}
	return nil
}

// Write prints a table of the flows: means over time, and for RTTs also the maximum.
func (r *flowSeriesReview) Write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	last := ""
	for i := range r.Flows[:min(len(r.Flows), maxQueues)] {
		f := &r.Flows[i]
		if f.File != last {
			t.Flush()
			fmt.Fprintf(w, "%s: means over the samples of each flow\n", f.File)
			fmt.Fprint(t, "flow\ttransfer\tfrom\tto")
			for k := range f.Values {
				if r.hasColumn(f.File, k) {
					fmt.Fprint(t, "\t", strings.ReplaceAll(f.Values[k].Name, "_", " "))
					if f.Values[k].Name == "rtt" {
						fmt.Fprint(t, "\tmax")
					}
				}
			}
			fmt.Fprintln(t)
			last = f.File
		}
		transfer := f.Transfer
		if transfer == "" {
			transfer = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%.12gs\t%.12gs", f.numberedName(), transfer, f.From.Seconds(), f.To.Seconds())
		for k := range f.Values {
			if m := &f.Values[k]; r.hasColumn(f.File, k) {
				fmt.Fprint(t, "\t", measuredText(m, m.Mean))
				if m.Name == "rtt" {
					fmt.Fprint(t, "\t", measuredText(m, m.Max))
				}
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	if n := len(r.Flows) - maxQueues; n > 0 {
		fmt.Fprintf(w, "and %d more flows: choose with --flow, or use --json\n", n)
	}
}

// hasColumn reports whether a quantity of a file has a column in the table: whether any flow that
// is shown has known values of it that are not all 0.
func (r *flowSeriesReview) hasColumn(file string, k int) bool {
	return slices.ContainsFunc(r.Flows, func(f Flow) bool {
		return f.File == file && f.Values[k].IsKnown() && (f.Values[k].Min != 0 || f.Values[k].Max != 0)
	})
}

func measuredText(m *series.Measured, v float64) string {
	if !m.IsKnown() {
		return "-"
	}
	return report.Gauge(gauge.Value{Unit: m.Unit, Value: v})
}

// Figure draws the quantity of each flow over time; if there are many flows, only those with
// the greatest values. It reads the files again, so that memory does not grow with their
// length.
func (r *flowSeriesReview) Figure() (*figure.Figure, string, error) {
	drawn, note, err := r.drawnFlows()
	if err != nil {
		return nil, "", err
	}
	from, to := units.Never, units.Time(0)
	for _, f := range drawn {
		from, to = min(from, f.From), max(to, f.To)
	}
	from, to = r.options.timeRange(from, to)
	lines, err := r.readLines(drawn, from, to)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for _, f := range drawn {
		names = append(names, r.nameOf(f, drawn))
	}
	p, err := overTime(&r.options, from, to, figure.Axis{Label: r.what.String(), Unit: unitOf(r.what.Unit)}, names, lines)
	if err != nil {
		return nil, "", err
	}
	if r.what.PerInterval {
		p.Steps = figure.Before
	}
	if p.Marks, err = marksOf(r.files, from, to); err != nil {
		return nil, "", err
	}
	title := ""
	if len(names) == 1 {
		title = names[0]
	}
	return figureOf(&r.options, title, *p), note, nil
}

// nameOf names a flow after its transfer, or by its own name, if no other drawn flow has that
// name, and otherwise by its number.
func (r *flowSeriesReview) nameOf(f *Flow, drawn []*Flow) string {
	name := f.givenName()
	alike := 0
	for _, o := range drawn {
		if o.File == f.File && o.givenName() == name {
			alike++
		}
	}
	switch {
	case name != "" && alike == 1:
	case f.Name != "":
		name = f.numberedName()
	default:
		name = strings.TrimSpace(name + " " + f.numberedName())
	}
	if len(r.files) > 1 {
		name = strings.TrimSuffix(filepath.Base(f.File), ".csv") + " " + name
	}
	return name
}

// drawnFlows returns the flows that a picture shows: those with known values and, if any flow has
// values other than 0, only such flows.
func (r *flowSeriesReview) drawnFlows() ([]*Flow, string, error) {
	var all []*Flow
	flat := func(f *Flow) bool { return f.lines.min == 0 && f.lines.max == 0 }
	for i := range r.Flows {
		if r.Flows[i].lines.known {
			all = append(all, &r.Flows[i])
		}
	}
	if slices.ContainsFunc(all, func(f *Flow) bool { return !flat(f) }) {
		all = slices.DeleteFunc(all, flat)
	}
	switch {
	case len(all) == 0:
		return nil, "", fmt.Errorf("%s of these flows is not known", r.what)
	case len(all) <= maxLines:
		return all, "", nil
	}
	byMax := slices.Clone(all)
	slices.SortStableFunc(byMax, func(a, b *Flow) int {
		switch {
		case a.lines.max > b.lines.max:
			return -1
		case a.lines.max < b.lines.max:
			return 1
		}
		return 0
	})
	byMax = byMax[:maxLines]
	drawn := slices.DeleteFunc(slices.Clone(all), func(f *Flow) bool { return !slices.Contains(byMax, f) })
	return drawn, fmt.Sprintf("only the %d of %d flows with the largest values are drawn; choose others with --flow", maxLines, len(all)), nil
}

// readLines reads the files again to collect the points of the flows.
func (r *flowSeriesReview) readLines(drawn []*Flow, from, to units.Time) ([]*series.Envelope, error) {
	lines := make([]*series.Envelope, len(drawn))
	for i := range lines {
		lines[i] = series.NewEnvelope(from, to, r.options.Width)
	}
	for _, file := range r.files {
		at := map[series.Flow]int{}
		for i, f := range drawn {
			if f.File == file {
				at[f.seriesKey()] = i
			}
		}
		merger := newFlowMerger(r.options.Average)
		if err := r.readRows(file, func(_ *series.FlowReader, what int, row *series.FlowRow) {
			i, ok := at[row.Flow]
			if !ok || row.At < r.options.From || row.At > r.options.To {
				return
			}
			p, ok := merger.mergeRow(row, what, r.what.PerInterval)
			if !ok {
				return
			}
			if r.what.PerInterval && lines[i].IsEmpty() {
				// The first step begins with its interval.
				lines[i].AddPoint(series.Point{At: max(from, row.At-p.over), Value: p.value})
			}
			lines[i].AddPoint(series.Point{At: row.At, Value: p.value})
		}); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// flowMerger merges the intervals of a flow's rows into longer ones.
type flowMerger struct {
	over units.Time
	open map[series.Flow]merged
}

type merged struct {
	value float64
	over  units.Time
}

func newFlowMerger(over units.Time) *flowMerger { return &flowMerger{over, map[series.Flow]merged{}} }

// mergeRow adds a row and returns its value, or that of the longer interval that it completes; false
// if the value is unknown, or not yet complete.
func (m *flowMerger) mergeRow(row *series.FlowRow, what int, perInterval bool) (merged, bool) {
	x := merged{row.Values[what], row.Interval}
	if math.IsNaN(x.value) {
		return x, false
	}
	if !perInterval || x.over >= m.over {
		return x, true
	}
	if was := m.open[row.Flow]; was.over > 0 {
		over := was.over + x.over
		x = merged{(was.value*float64(was.over) + x.value*float64(x.over)) / float64(over), over}
	}
	if x.over >= m.over {
		delete(m.open, row.Flow)
		return x, true
	}
	m.open[row.Flow] = x
	return x, false
}
