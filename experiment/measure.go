package experiment

import (
	"fmt"
	"math"
	"sort"
	"strconv"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"github.com/maruel/natural"

	"github.com/weftlab/weft/experiment/table"
)

// Measure is a number, or one for each bin, measured in a cell: a statistic of a column
// of one of its tables, or an expression of other measures.
type Measure struct {
	Name   string // an identifier, for expressions
	Title  string // for display; Name if the file gives none
	Of     string // table
	Column string
	Where  table.Filter
	// Average, in seconds, replaces the rows of a table over time by their means over intervals
	// of this length, for each combination of texts; 0 keeps the rows.
	Average float64
	Stat    table.Statistic
	Timed   table.Timed // replaces Stat, for a table over time; nil means Stat
	By      string      // column whose values make the bins; "" for a single number
	Edges   []float64   // By is a column of numbers: bin i is from Edges[i] up to Edges[i+1]
	Per     string      // column: take Stat for each of its values, and Over over the results
	Over    table.Statistic
	// OverTimed replaces Over if Per is the time.
	OverTimed table.Timed
	Center    Center // of the seeds

	Expr    string // replaces all of the above
	program *vm.Program
	uses    []string // measures that Expr names
}

// Unit returns the name of a column with the unit of the measure, for table.Format.
func (m *Measure) Unit() string {
	switch {
	case m.Expr != "":
		return ""
	case m.OverTimed != nil:
		return table.TimeColumn
	case m.Per != "" && !m.Over.KeepsUnit():
		return ""
	case m.Timed != nil:
		return table.TimeColumn
	}
	if !m.Stat.KeepsUnit() {
		return ""
	}
	return m.Column
}

// Value is a measure of one cell, or of one bin of it.
type Value struct {
	Bin   string       `json:"bin,omitempty"`
	Value table.Number `json:"value"`
}

// measureTables takes the measure from the tables of a cell. The error says what does not fit
// together.
func (m *Measure) measureTables(b table.Bundle) ([]Value, error) {
	t := b.Table(m.Of)
	if t == nil {
		return nil, fmt.Errorf("the run left no table %q: it has %v", m.Of, b.Names())
	}
	rows, err := m.Where.FilterRows(t)
	if err != nil {
		return nil, err
	}
	c := t.FindColumn(m.Column)
	switch {
	case c == nil:
		return nil, &table.UnknownColumnError{Table: t.Name, Column: m.Column, Has: t.Names()}
	case c.IsText() && m.Stat.String() != "count":
		return nil, fmt.Errorf("%s of table %s is text: only count applies to it", m.Column, t.Name)
	}
	if m.Average > 0 {
		if t, rows, err = m.averageIntervals(t, rows); err != nil {
			return nil, err
		}
		c = t.FindColumn(m.Column)
	}
	bins, err := m.distributeRows(t, rows)
	if err != nil {
		return nil, err
	}
	values := make([]Value, len(bins))
	for i, bin := range bins {
		x, err := m.computeStatistic(t, c, bin.rows)
		if err != nil {
			return nil, err
		}
		values[i] = Value{bin.name, table.Number(x)}
	}
	return values, nil
}

// bin is rows that are measured together.
type bin struct {
	name string
	rows []int
}

// distributeRows distributes rows to bins; there is only one if the measure has no bins.
func (m *Measure) distributeRows(t *table.Table, rows []int) ([]bin, error) {
	if m.By == "" {
		return []bin{{rows: rows}}, nil
	}
	c := t.FindColumn(m.By)
	switch {
	case c == nil:
		return nil, &table.UnknownColumnError{Table: t.Name, Column: m.By, Has: t.Names()}
	case c.IsText() && m.Edges != nil:
		return nil, fmt.Errorf("%s of table %s is text: each of its values is a bin, so it has no edges", m.By, t.Name)
	case !c.IsText() && m.Edges == nil:
		return nil, fmt.Errorf("%s of table %s is numbers: give the edges of the bins, such as {%s: [0, 10, 100]}", m.By, t.Name, m.By)
	case c.IsText():
		return groupRows(c, rows), nil
	}
	bins := make([]bin, len(m.Edges)-1)
	for i := range bins {
		bins[i].name = BinName(m.By, m.Edges, i)
	}
	for _, row := range rows {
		// The first edge above the number is the end of its bin.
		if i := sort.Search(len(m.Edges), func(i int) bool { return m.Edges[i] > c.Numbers[row] }); i > 0 && i < len(m.Edges) {
			bins[i-1].rows = append(bins[i-1].rows, row)
		}
	}
	return bins, nil
}

// BinName returns the name of the bin from edge i of a column's bins to the next.
func BinName(column string, edges []float64, i int) string {
	low, high := table.Format(column, edges[i], 6), table.Format(column, edges[i+1], 6)
	if math.IsInf(edges[i+1], 1) {
		return ">=" + low
	}
	return low + ".." + high
}

// groupRows groups rows by their text, sorted by text in natural order, or by their number.
func groupRows(c *table.Column, rows []int) []bin {
	at := map[string]int{}
	var all []bin
	for _, row := range rows {
		key := ""
		if c.IsText() {
			key = c.Texts[row]
		} else {
			key = strconv.FormatFloat(c.Numbers[row], 'g', -1, 64)
		}
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key] = i
			all = append(all, bin{name: key})
		}
		all[i].rows = append(all[i].rows, row)
	}
	sort.SliceStable(all, func(i, j int) bool {
		if c.IsText() {
			return natural.Less(all[i].name, all[j].name) // h2 before h10
		}
		return c.Numbers[all[i].rows[0]] < c.Numbers[all[j].rows[0]]
	})
	return all
}

// averageIntervals returns a table with the measure's column averaged over intervals, for each
// combination of texts, and all of its rows. An interval ends at a multiple of its length.
func (m *Measure) averageIntervals(t *table.Table, rows []int) (*table.Table, []int, error) {
	at, from := t.FindColumn(table.TimeColumn), t.FindColumn(m.Column)
	switch {
	case at == nil:
		return nil, nil, fmt.Errorf("the table %s is not over time: average needs one with a column %s, such as queue-series", t.Name, table.TimeColumn)
	case from.IsText():
		return nil, nil, fmt.Errorf("%s of table %s is text: it has no average", m.Column, t.Name)
	}
	var texts []*table.Column
	for i := range t.Columns {
		if c := &t.Columns[i]; c.IsText() {
			texts = append(texts, c)
		}
	}
	type window struct {
		row    int // the first
		end    int
		sum, n float64
	}
	known := map[string]int{}
	var all []window
	for _, row := range rows {
		// The end of an interval that is off by a rounding error belongs to it.
		end := int(math.Ceil(at.Numbers[row]/m.Average - 1e-6))
		key := strconv.Itoa(end)
		for _, c := range texts {
			key += "\x00" + c.Texts[row]
		}
		i, ok := known[key]
		if !ok {
			i = len(all)
			known[key] = i
			all = append(all, window{row: row, end: end})
		}
		if x := from.Numbers[row]; !math.IsNaN(x) {
			all[i].sum, all[i].n = all[i].sum+x, all[i].n+1
		}
	}
	out := &table.Table{Name: t.Name}
	for _, c := range texts {
		column := table.Column{Name: c.Name, Texts: make([]string, len(all))}
		for i, w := range all {
			column.Texts[i] = c.Texts[w.row]
		}
		out.Columns = append(out.Columns, column)
	}
	number := func(name string, of func(w *window) float64) {
		column := table.Column{Name: name, Numbers: make([]float64, len(all))}
		for i := range all {
			column.Numbers[i] = of(&all[i])
		}
		out.Columns = append(out.Columns, column)
	}
	number(table.TimeColumn, func(w *window) float64 { return float64(w.end) * m.Average })
	number(table.IntervalColumn, func(*window) float64 { return m.Average })
	if m.Column != table.TimeColumn && m.Column != table.IntervalColumn {
		number(m.Column, func(w *window) float64 { return w.sum / w.n }) // unknown if nothing is known
	}
	every := make([]int, len(all))
	for i := range every {
		every[i] = i
	}
	return out, every, nil
}

// computeStatistic computes the statistic of some rows.
func (m *Measure) computeStatistic(t *table.Table, c *table.Column, rows []int) (float64, error) {
	at, intervals := t.FindColumn(table.TimeColumn), t.FindColumn(table.IntervalColumn)
	if m.Timed != nil && at == nil {
		return 0, fmt.Errorf("the table %s is not over time: %s needs one with a column %s, such as queue-series", t.Name, m.Timed, table.TimeColumn)
	}
	lengths := func(rows []int) []float64 {
		if intervals == nil {
			return nil
		}
		return numbersAt(intervals, rows)
	}
	of := func(rows []int) float64 {
		if c.IsText() {
			return float64(len(rows))
		}
		numbers := numbersAt(c, rows)
		if m.Timed != nil {
			return m.Timed.Of(numbersAt(at, rows), lengths(rows), numbers)
		}
		return m.Stat.Of(numbers)
	}
	if m.Per == "" {
		return of(rows), nil
	}
	per := t.FindColumn(m.Per)
	switch {
	case per == nil:
		return 0, &table.UnknownColumnError{Table: t.Name, Column: m.Per, Has: t.Names()}
	case !per.IsText() && m.Per != table.TimeColumn:
		return 0, fmt.Errorf("%s of table %s is numbers: per needs a column of texts, such as a name, or %s", m.Per, t.Name, table.TimeColumn)
	case m.OverTimed != nil && m.Per != table.TimeColumn:
		return 0, fmt.Errorf("%s needs per: %s, but it is over each %s", m.OverTimed, table.TimeColumn, m.Per)
	}
	var each []float64
	var firsts []int // a row of each
	for _, g := range groupRows(per, rows) {
		each, firsts = append(each, of(g.rows)), append(firsts, g.rows[0])
	}
	if m.OverTimed != nil {
		return m.OverTimed.Of(numbersAt(at, firsts), lengths(firsts), each), nil
	}
	return m.Over.Of(each), nil
}

// numbersAt returns the numbers of some rows.
func numbersAt(c *table.Column, rows []int) []float64 {
	numbers := make([]float64, len(rows))
	for i, row := range rows {
		numbers[i] = c.Numbers[row]
	}
	return numbers
}

// CompileExpression compiles the expression of a measure, Expr, which may use the measures in
// others. bins("NAME") is a list of the values in the bins of one of them.
func (m *Measure) CompileExpression(others []string) (err error) {
	env := map[string]any{"bins": func(string) []float64 { return nil }}
	for _, name := range others {
		env[name] = 0.0
	}
	if m.program, err = expr.Compile(m.Expr, expr.Env(env), expr.AsFloat64()); err != nil {
		return err
	}
	m.uses = namesIn(m.program, others)
	return checkLists(m.program, others)
}

// evaluateBins evaluates an expression for a cell, bin by bin: measures without bins have the
// same value in all of them.
func (m *Measure) evaluateBins(known map[string][]Value) ([]Value, error) {
	bins := []string{""}
	for _, name := range m.uses {
		if v := known[name]; len(v) > 1 || len(v) == 1 && v[0].Bin != "" {
			bins = bins[:0]
			for _, x := range v {
				bins = append(bins, x.Bin)
			}
			break
		}
	}
	values := make([]Value, len(bins))
	for i, bin := range bins {
		env := map[string]any{"bins": func(name string) []float64 { return numbersOf(known[name]) }}
		for _, name := range m.uses {
			x, ok := valueOfBin(known[name], bin)
			if !ok {
				return nil, fmt.Errorf("%s has no bin %q", name, bin)
			}
			env[name] = x
		}
		x, err := expr.Run(m.program, env)
		if err != nil {
			return nil, err
		}
		values[i] = Value{bin, table.Number(x.(float64))}
	}
	return values, nil
}

// numbersOf returns the values of all bins.
func numbersOf(values []Value) []float64 {
	numbers := make([]float64, len(values))
	for i, v := range values {
		numbers[i] = float64(v.Value)
	}
	return numbers
}

// valueOfBin returns the value of a bin; a measure without bins has the same value in all.
func valueOfBin(values []Value, bin string) (float64, bool) {
	for _, v := range values {
		if v.Bin == bin || v.Bin == "" && len(values) == 1 {
			return float64(v.Value), true
		}
	}
	return table.Unknown, false
}

// MeasureAll takes all measures from the tables of a cell, by name.
func MeasureAll(measures []Measure, b table.Bundle) (map[string][]Value, error) {
	known := map[string][]Value{}
	for i := range measures {
		m := &measures[i]
		var err error
		if m.Expr != "" {
			known[m.Name], err = m.evaluateBins(known)
		} else {
			known[m.Name], err = m.measureTables(b)
		}
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", m.Name, err)
		}
	}
	return known, nil
}
