package chart

import (
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure"
)

// Queue is one queue in one file.
type Queue struct {
	File string `json:"file"`
	series.Statistics
}

func (q *Queue) fullName() string {
	if q.Class == "" {
		return q.Port
	}
	return q.Port + " " + q.Class
}

// seriesReview is a review of series of queues.
type seriesReview struct {
	Queues []Queue `json:"queues"`

	files    []string
	options  Options
	quantity series.Quantity
}

func openSeries(files []string, o Options) (*seriesReview, error) {
	if o.What == "" {
		o.What = series.Queue.String()
	}
	if len(o.Flows) > 0 {
		return nil, errors.New("a series of queues has no flows: --flow is for series of flows (weft sim --flow-series x.csv)")
	}
	if o.LogX {
		return nil, errors.New("time is not shown on a logarithmic axis: --log-x is for records of flows and transfers")
	}
	r := &seriesReview{files: files, options: o}
	for _, p := range append([]string{o.Class}, o.Ports...) {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("%q is not a pattern: a [ needs its ]", p)
		}
	}
	all := newNames()
	for _, f := range files {
		var s *series.Statistician
		if err := r.readRows(f, func(x *series.Reader, row *series.Row) {
			if s == nil {
				s = series.NewStatistician(r.quantity, o.Average, x.Gauges()...)
			}
			all.addRow(row)
			if r.isRequested(row) {
				s.AddRow(row)
			}
		}); err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		for _, x := range s.Statistics() {
			r.Queues = append(r.Queues, Queue{f, x})
		}
	}
	return r, r.missingError(all)
}

// readRows calls each for the rows of a file, after finding the requested quantity in it.
func (r *seriesReview) readRows(file string, each func(x *series.Reader, row *series.Row)) error {
	return readFile(file, func(in io.Reader) error {
		x, err := series.NewReader(in)
		if err != nil {
			return err
		}
		if r.quantity, err = x.FindQuantity(r.options.What); err != nil {
			return fmt.Errorf("--what: for this series of queues, %w", err)
		}
		if r.options.Average > 0 && !r.quantity.IsRate() {
			return fmt.Errorf("--average is for rates, but %s is not averaged", r.quantity)
		}
		return x.EachRow(func(row *series.Row) error {
			each(x, row)
			return nil
		})
	})
}

// isRequested reports whether a row is requested.
func (r *seriesReview) isRequested(row *series.Row) bool {
	o := &r.options
	return row.At >= o.From && row.At <= o.To && matchesPattern(o.Class, row.Class) &&
		(len(o.Ports) == 0 || slices.ContainsFunc(o.Ports, func(p string) bool { return matchesPattern(p, row.Port) }))
}

func matchesPattern(pattern, name string) bool {
	if pattern == "" || name == "" {
		return pattern == name
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

// names lists what the files hold, whether requested or not.
type names struct {
	ports, classes []string
	seen           map[series.Source]bool
	from, to       units.Time
}

func newNames() *names { return &names{seen: map[series.Source]bool{}, from: units.Never} }

func (n *names) addRow(row *series.Row) {
	n.from, n.to = min(n.from, row.At), max(n.to, row.At)
	if n.seen[row.Source] {
		return
	}
	n.seen[row.Source] = true
	if !slices.Contains(n.ports, row.Port) {
		n.ports = append(n.ports, row.Port)
	}
	if row.Class != "" && !slices.Contains(n.classes, row.Class) {
		n.classes = append(n.classes, row.Class)
	}
}

// missingError returns the error for what was requested but does not exist.
func (r *seriesReview) missingError(all *names) error {
	in := strings.Join(r.files, ", ")
	for _, p := range r.options.Ports {
		if !slices.ContainsFunc(all.ports, func(name string) bool { return matchesPattern(p, name) }) {
			return fmt.Errorf("%s has no port %q: %s", in, p, suggest.Hint(p, "its ports are", all.ports))
		}
	}
	if c := r.options.Class; c != "" && !slices.ContainsFunc(all.classes, func(name string) bool { return matchesPattern(c, name) }) {
		return fmt.Errorf("%s has no class %q: %s", in, c, suggest.Hint(c, "its classes are", all.classes))
	}
	switch {
	case len(all.ports) == 0:
		return fmt.Errorf("%s has no samples", in)
	case len(r.Queues) == 0 && (r.options.From > all.from || r.options.To < all.to):
		return fmt.Errorf("%s has no such sample from %v to %v: its samples cover %v to %v", in, r.options.From, r.options.To, all.from, all.to)
	case len(r.Queues) == 0:
		return fmt.Errorf("%s has no sample of such a port and class", in)
	}
	return nil
}

// maxQueues is how many queues a table shows; JSON has all of them.
const maxQueues = 40

// Write prints a table of the queues, followed by the meaning of its columns.
func (r *seriesReview) Write(w io.Writer) {
	var classes, trims, paused bool
	for i := range r.Queues {
		q := &r.Queues[i]
		classes, trims, paused = classes || q.Class != "", trims || q.Trimmed > 0, paused || q.Paused > 0
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	last := ""
	for i := range r.Queues[:min(len(r.Queues), maxQueues)] {
		q := &r.Queues[i]
		if q.File != last {
			t.Flush()
			fmt.Fprintf(w, "%s: %d samples of each queue from %.12gs to %.12gs\n", q.File, q.Rows, q.From.Seconds(), q.To.Seconds())
			fmt.Fprint(t, "port")
			for _, c := range []struct {
				name string
				show bool
			}{
				{"class", classes}, {"queue mean", true}, {"p50", true}, {"p99", true}, {"max", true}, {"sent", true},
				{"received", !classes}, {"bytes sent", true}, {"dropped", true}, {"marked", true}, {"trimmed", trims}, {"paused", paused},
			} {
				if c.show {
					fmt.Fprint(t, "\t", c.name)
				}
			}
			for k := range q.Gauges {
				if r.hasColumn(q.File, k) {
					fmt.Fprint(t, "\t", gaugeHead(&q.Gauges[k]))
				}
			}
			fmt.Fprintln(t)
			last = q.File
		}
		fmt.Fprint(t, q.Port)
		if classes {
			fmt.Fprint(t, "\t", q.Class)
		}
		size := func(b units.Bytes) string { return report.Size(float64(b)) }
		fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\t%s", report.Size(q.QueueMean), size(q.QueueP50), size(q.QueueP99), size(q.QueueMax), report.Rate(q.TxRate))
		if !classes {
			fmt.Fprint(t, "\t", report.Rate(q.RxRate))
		}
		fmt.Fprintf(t, "\t%s\t%d\t%d", report.Size(float64(q.TxBytes)), q.Dropped, q.Marked)
		if trims {
			fmt.Fprintf(t, "\t%d", q.Trimmed)
		}
		if paused {
			fmt.Fprint(t, "\t", report.Span(q.Paused))
		}
		for k := range q.Gauges {
			if m := &q.Gauges[k]; r.hasColumn(q.File, k) {
				fmt.Fprint(t, "\t", measuredText(m, m.Mean))
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	if n := len(r.Queues) - maxQueues; n > 0 {
		fmt.Fprintf(w, "and %d more queues: choose with --port, or use --json\n", n)
	}
}

// hasColumn reports whether a gauge of a file has a column in the table, which shows means
// over time: whether any requested queue has known values of it that are not all 0.
func (r *seriesReview) hasColumn(file string, k int) bool {
	return slices.ContainsFunc(r.Queues, func(q Queue) bool {
		return q.File == file && q.Gauges[k].IsKnown() && (q.Gauges[k].Min != 0 || q.Gauges[k].Max != 0)
	})
}

// gaugeHead returns the heading of a gauge's column.
func gaugeHead(m *series.Measured) string {
	name := strings.ReplaceAll(m.Name, "_", " ")
	if m.Of == "edge" {
		name = "edge " + name
	}
	return name
}

// quantityAxis returns the axis of the quantity.
func (r *seriesReview) quantityAxis() figure.Axis {
	if unit, is := r.quantity.IsGauge(); is {
		return figure.Axis{Label: r.quantity.String(), Unit: unitOf(unit)}
	}
	return quantityAxes[r.quantity]
}

// packetsPerSecond is the unit of rates of packets.
const packetsPerSecond figure.Unit = "packets/s"

// quantityAxes holds the axes of the quantities that all files have.
var quantityAxes = map[series.Quantity]figure.Axis{
	series.Queue: {Label: "queue", Unit: figure.Bytes}, series.QueueMax: {Label: "longest queue in the interval", Unit: figure.Bytes},
	series.Rate: {Label: "rate sent", Unit: figure.BitsPerSecond}, series.RxRate: {Label: "rate received", Unit: figure.BitsPerSecond},
	series.Drops: {Label: "drops", Unit: packetsPerSecond}, series.Marks: {Label: "marks", Unit: packetsPerSecond}, series.Trims: {Label: "trims", Unit: packetsPerSecond},
	series.Paused: {Label: "paused share of time", Unit: figure.Ratio},
}

// Figure draws the quantity of each queue over time; if there are many queues, only those
// with the greatest values. It reads the files again, so that memory does not grow with
// their length.
func (r *seriesReview) Figure() (*figure.Figure, string, error) {
	drawn, note := r.drawnQueues()
	if len(drawn) == 0 {
		return nil, "", fmt.Errorf("%s of these queues is not known; --class chooses those of classes", r.quantity)
	}
	_, momentary := r.quantity.IsGauge()
	momentary = momentary || r.quantity == series.Queue
	from, to := units.Never, units.Time(0)
	for _, q := range drawn {
		from, to = min(from, q.From), max(to, q.To)
	}
	from, to = r.options.timeRange(from, to)
	lines, err := r.readLines(drawn, from, to, momentary)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for i, q := range drawn {
		name := q.fullName()
		if len(r.files) > 1 {
			name = strings.TrimSuffix(filepath.Base(q.File), ".csv") + " " + name
		}
		if lines[i].IsEmpty() {
			return nil, "", fmt.Errorf("%s: %s of %s is not known", q.File, r.quantity, q.fullName())
		}
		names = append(names, name)
	}
	p, err := overTime(&r.options, from, to, r.quantityAxis(), names, lines)
	if err != nil {
		return nil, "", err
	}
	if !momentary {
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

// drawnQueues returns the queues that a picture shows: for a gauge only those that have it.
func (r *seriesReview) drawnQueues() ([]*Queue, string) {
	var all []*Queue
	_, gauge := r.quantity.IsGauge()
	for i := range r.Queues {
		if q := &r.Queues[i]; q.Known || !gauge {
			all = append(all, q)
		}
	}
	if len(all) <= maxLines {
		return all, ""
	}
	byPeak := slices.Clone(all)
	slices.SortStableFunc(byPeak, func(a, b *Queue) int {
		switch {
		case a.Peak > b.Peak:
			return -1
		case a.Peak < b.Peak:
			return 1
		}
		return 0
	})
	byPeak = byPeak[:maxLines]
	drawn := slices.DeleteFunc(slices.Clone(all), func(q *Queue) bool { return !slices.Contains(byPeak, q) })
	return drawn, fmt.Sprintf("only the %d of %d queues with the largest values are drawn; choose others with --port", maxLines, len(all))
}

// readLines reads the files again to collect the points of the queues, at instants or over
// intervals.
func (r *seriesReview) readLines(drawn []*Queue, from, to units.Time, momentary bool) ([]*series.Envelope, error) {
	lines := make([]*series.Envelope, len(drawn))
	for i := range lines {
		lines[i] = series.NewEnvelope(from, to, r.options.Width)
	}
	for _, f := range r.files {
		merger := series.NewMerger(r.options.Average)
		at := map[series.Source]int{}
		for i, q := range drawn {
			if q.File == f {
				at[series.Source{Port: q.Port, Class: q.Class}] = i
			}
		}
		if err := r.readRows(f, func(_ *series.Reader, row *series.Row) {
			i, ok := at[row.Source]
			if !ok || !r.isRequested(row) {
				return
			}
			if r.quantity.IsRate() {
				var whole bool
				if row, whole = merger.AddRow(row); !whole || drawn[i].IsTooShort(row) {
					return
				}
			}
			if v, ok := r.quantity.ValueIn(row); ok {
				if !momentary && lines[i].IsEmpty() {
					// The first step begins with its interval.
					lines[i].AddPoint(series.Point{At: max(from, row.At-row.Interval), Value: v})
				}
				lines[i].AddPoint(series.Point{At: row.At, Value: v})
			}
		}); err != nil {
			return nil, err
		}
	}
	return lines, nil
}
