package experiment

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/experiment/table"
)

// digits is how many digits of a mean are shown.
const digits = 4

// DescribeMeasure describes a measure: "p99 of slowdown of flows where size_bytes <100KB".
func (m *Measure) DescribeMeasure() string {
	if m.Expr != "" {
		return m.Expr
	}
	text := m.Stat.String()
	if m.Timed != nil {
		text = m.Timed.String()
	}
	text += " of " + m.Column
	if m.Average > 0 {
		text += " averaged over " + table.Format(table.TimeColumn, m.Average, 4)
	}
	if m.Per != "" {
		over := m.Over.String()
		if m.OverTimed != nil {
			over = m.OverTimed.String()
		}
		text = over + " over each " + m.Per + " of the " + text
	}
	text += " of " + m.Of
	for i, c := range m.Where {
		text += [...]string{" where ", " and "}[min(i, 1)] + c.Column + " " + anyOf(c.Any)
	}
	if m.By != "" {
		text += " by " + m.By
	}
	return text
}

// anyOf lists the values of a condition. An empty one is the row of a port as a whole.
func anyOf(values []string) string {
	shown := slices.Clone(values)
	for i, v := range shown {
		if v == "" {
			shown[i] = `""`
		}
	}
	return strings.Join(shown, " or ")
}

// WriteText prints the report as text, with a table for each measure.
func (r *Report) WriteText(w io.Writer) {
	title := r.Name
	if r.Title != "" {
		title += ": " + r.Title
	}
	if r.Quick {
		title += " (quick form)"
	}
	fmt.Fprintln(w, title)
	fmt.Fprintf(w, "%d cells, %d seeds, %s clock, %s\n", len(r.Cells), len(r.Seeds), r.ClockNames(), r.Version)
	if r.Partial != "" {
		fmt.Fprintln(w, "PARTIAL ", r.Partial)
	}
	if n := r.CountTraffic(); n > 0 {
		fmt.Fprintf(w, "FAILED   modelled traffic of %d of %d cells, see below\n", n, len(r.Cells))
	}
	if n := len(r.Unsteady); n > 0 {
		fmt.Fprintf(w, "UNSTEADY %d of %d combinations, see below\n", n, r.countCombinations())
	}
	together := r.measuresOfOneTable()
	if len(together) > 1 {
		fmt.Fprintln(w)
		r.writeTogether(w, together)
	}
	for i := range r.Measures {
		if len(together) > 1 && slices.Contains(together, &r.Measures[i]) {
			continue
		}
		fmt.Fprintln(w)
		r.writeMeasure(w, &r.Measures[i])
	}
	r.writeUnsteady(w)
	r.writeFailures(w)
	r.writeVerdicts(w)
}

// ClockNames names the clocks: "wall", or "wall and virtual".
func (r *Report) ClockNames() string {
	var words []string
	for _, c := range r.Clocks {
		words = append(words, string(c))
	}
	return strings.Join(words, " and ")
}

// maxTogether is how many combinations of levels fit side by side in one table.
const maxTogether = 5

// measuresOfOneTable returns the measures that share one table, a row for each: those without bins,
// if there are few combinations of levels.
func (r *Report) measuresOfOneTable() (all []*Header) {
	for i := range r.Measures {
		if rows := r.Of(r.Measures[i].Name); len(rows) > 0 && len(rows) <= maxTogether && rows[0].Bin == "" {
			all = append(all, &r.Measures[i])
		}
	}
	return all
}

// writeTogether prints measures, a row for each, with a column for each combination of
// levels.
func (r *Report) writeTogether(w io.Writer, measures []*Header) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{""}
	for _, s := range r.Of(measures[0].Name) {
		var words []string
		for f, l := range s.Levels {
			if len(r.Factors) > 1 {
				l = r.Factors[f].Name + "=" + l
			}
			words = append(words, l)
		}
		head = append(head, strings.Join(words, " "))
	}
	fmt.Fprintln(t, strings.TrimRight(strings.Join(head, "\t"), "\t "))
	for _, h := range measures {
		line := []string{h.Title}
		for _, s := range r.Of(h.Name) {
			text := table.Format(h.Unit, float64(s.Value), digits)
			if s.Low.IsKnown() {
				text += " " + s.Interval(h.Unit)
			}
			if s.Paper != nil {
				text += fmt.Sprintf(" (%s: %s, ratio %s)", s.Paper, table.Format(h.Unit, s.Paper.Value, digits), table.Format("", float64(s.Ratio), 3))
			}
			line = append(line, text)
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	t.Flush()
}

// writeMeasure prints a measure: a row for each bin and combination of levels.
func (r *Report) writeMeasure(w io.Writer, h *Header) {
	fmt.Fprintf(w, "%s: %s\n", h.Title, h.Of)
	rows := r.Of(h.Name)
	hasBins := slices.ContainsFunc(rows, func(s *Summary) bool { return s.Bin != "" })
	hasPaper := slices.ContainsFunc(rows, func(s *Summary) bool { return s.Paper != nil })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var head []string
	if hasBins {
		head = append(head, "bin")
	}
	for _, f := range r.Factors {
		head = append(head, f.Name)
	}
	head = append(head, string(h.Center), "95% CI", "n")
	if hasPaper {
		head = append(head, "paper", "ratio", "source")
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, s := range rows {
		var line []string
		if hasBins {
			line = append(line, s.Bin)
		}
		line = append(line, s.Levels...)
		line = append(line, table.Format(h.Unit, float64(s.Value), digits), s.Interval(h.Unit), fmt.Sprint(len(s.Values)))
		if hasPaper {
			if s.Paper != nil {
				line = append(line, table.Format(h.Unit, s.Paper.Value, digits), table.Format("", float64(s.Ratio), 3), s.Paper.String())
			} else {
				line = append(line, "", "", "")
			}
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(line, "\t"), "\t "))
	}
	t.Flush()
}

// String says where a paper's value comes from.
func (p *PaperValue) String() string {
	switch p.Origin {
	case ReadOff:
		return p.Source + ", read off"
	case Computed:
		return p.Source + ", computed"
	case Remembered:
		return p.Source + ", remembered"
	}
	return p.Source
}

// Interval formats the 95% confidence interval of a value with its unit.
func (s *Summary) Interval(unit string) string {
	half, other := s.High-s.Value, s.Value-s.Low
	switch {
	case !s.Low.IsKnown():
		return "-"
	case math.Abs(float64(half-other)) <= 1e-9*math.Abs(float64(half)):
		return "± " + table.Format(unit, float64(half), 2)
	}
	return table.Format(unit, float64(s.Low), digits) + " to " + table.Format(unit, float64(s.High), digits)
}

// Of returns the summaries of a measure, bin by bin.
func (r *Report) Of(measure string) (rows []*Summary) {
	var bins []string
	for i := range r.Summaries {
		if s := &r.Summaries[i]; s.Measure == measure {
			rows = append(rows, s)
			if !slices.Contains(bins, s.Bin) {
				bins = append(bins, s.Bin)
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b *Summary) int { return slices.Index(bins, a.Bin) - slices.Index(bins, b.Bin) })
	return rows
}

// writeFailures prints the cells that failed, and those with which the machine did not keep
// up.
func (r *Report) writeFailures(w io.Writer) {
	if n := r.CountLate(); n > 0 {
		fmt.Fprintf(w, "\nthe machine did NOT KEEP UP with %d of %d cells, whose numbers are kept anyway\n", n, len(r.Cells))
	}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Late != "" {
			fmt.Fprintf(w, "  %s: %s\n", r.cellName(c), c.Late)
		}
	}
	if n := r.CountTraffic(); n > 0 {
		fmt.Fprintf(w, "\nmodelled traffic FAILED in %d of %d cells\n", n, len(r.Cells))
	}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Traffic != "" {
			fmt.Fprintf(w, "  %s: %s\n", r.cellName(c), c.Traffic)
		}
	}
	if n := r.CountCells(Failed); n > 0 {
		fmt.Fprintf(w, "\n%d of %d cells FAILED\n", n, len(r.Cells))
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.State != Failed {
			continue
		}
		fmt.Fprintf(w, "  %s: %s\n", r.cellName(c), c.Error)
	}
}

// cellName returns the name of a cell.
func (r *Report) cellName(c *CellReport) string {
	seed := fmt.Sprintf("seed=%d", c.Seed)
	if len(c.Levels) == 0 {
		return seed
	}
	return r.combinationName(c.Levels) + " " + seed
}

// writeVerdicts prints the expectations and whether they hold.
func (r *Report) writeVerdicts(w io.Writer) {
	if len(r.Verdicts) > 0 {
		fmt.Fprintln(w, "\nexpected")
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		word := "holds"
		if !v.Held {
			word = "FAILS"
		}
		fmt.Fprintf(w, "  %s  %s\n", word, v.Text)
		for _, why := range v.Why {
			fmt.Fprintf(w, "         %s\n", why)
		}
	}
}
