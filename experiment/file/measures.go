package file

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cell"
	"github.com/weftlab/weft/experiment/table"
)

// resolveMeasures resolves the measures.
func (v *resolver) resolveMeasures() {
	var names []string
	for i := range v.file.Measure {
		name, f := &v.file.Measure[i].Name, &v.file.Measure[i].Value
		if !identifierPattern.MatchString(*name) || slices.Contains([]string{"abs", "paper", "bin", "bins", "min", "max", "sum", "mean", "median"}, *name) {
			v.ReportFault(name, "letters, digits and _, but not a word of expressions such as abs, max or paper", "%q cannot be a measure's name", *name)
		}
		m := experiment.Measure{Name: *name, Title: *name, Center: experiment.Mean}
		override((*center)(&m.Center), f.Seeds)
		override(&m.Title, f.Title)
		if f.Expr != nil {
			v.resolveExpression(&m, &f.measureFile, names)
		} else {
			v.resolveMeasure(&m, &f.measureFile)
		}
		names = append(names, *name)
		v.e.Measures = append(v.e.Measures, m)
	}
	if len(v.file.Measure) == 0 {
		v.ReportFault(&v.file.Measure, "write for example fct: {of: transfers, column: completion_p99_us}", "the experiment measures nothing")
	}
}

// resolveExpression resolves a measure that is computed from others.
func (v *resolver) resolveExpression(m *experiment.Measure, f *measureFile, names []string) {
	for _, p := range []any{f.Of, f.Column, f.Stat, f.Average, f.Within, f.Target, f.Until, f.By, f.Per, f.Over} {
		if v.Place(p) != nil {
			v.ReportFault(p, "a measure is either an expression or a statistic of a table", "this has no effect with expr")
		}
	}
	m.Expr = *f.Expr
	if err := m.CompileExpression(names); err != nil {
		v.ReportFault(f.Expr, "the measures above it are "+suggest.List(names), "%v", firstLine(err))
	}
}

// firstLine returns an error without the drawing that follows.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// resolveMeasure resolves a measure that is a statistic of a table.
func (v *resolver) resolveMeasure(m *experiment.Measure, f *measureFile) {
	if f.Of == nil || f.Column == nil {
		v.ReportFault(f, "write for example {of: transfers, column: completion_p99_us}, or an expression of other measures", "a measure needs of, the table, and column")
		return
	}
	v.adoptColumns(f.Column, f.Where)
	m.Of, m.Column = *f.Of, *f.Column
	if m.Timed = v.resolveTimed(f.Stat, f); m.Timed == nil {
		m.Stat = v.resolveStatistic(f.Stat, "mean")
	}
	if f.Average != nil {
		if *f.Average <= 0 {
			v.ReportFault(f.Average, "write for example average: 10ms", "the length of an interval must be above 0")
		}
		m.Average = f.Average.Seconds()
	}
	m.Where = v.filterOf(f.Of, f.Where)
	if f.By != nil {
		v.adoptColumn(f.By, &f.By.column)
		m.By = f.By.column
		m.Edges = v.resolveEdges(f.By)
	}
	switch {
	case f.Per != nil && f.Over == nil:
		v.ReportFault(f.Per, "write over: with the statistic of them, such as over: max", "per has no effect without over")
	case f.Per == nil && f.Over != nil:
		v.ReportFault(f.Over, "write per: with the column whose values are measured one by one", "over has no effect without per")
	case f.Per != nil:
		m.Per = *f.Per
		if m.OverTimed = v.resolveTimed(f.Over, f); m.OverTimed == nil {
			m.Over = v.resolveStatistic(f.Over, "")
		}
	}
	v.checkTimed(m, f)
	v.checkTable(f.Of, f.Column, f.Where)
	if err := v.tryMeasure(m); err != nil {
		v.ReportFault(f, "", "%v", err)
	}
}

// tryMeasure takes a measure of tables without rows, which shows errors in its settings.
func (v *resolver) tryMeasure(m *experiment.Measure) error {
	if t := v.emptyTable(m.Of); t != nil && v.Err() == nil {
		_, err := experiment.MeasureAll([]experiment.Measure{*m}, table.Bundle{t})
		return err
	}
	return nil
}

// formerColumns has the former names of columns of all tables, and their names now. They are read
// for one more release, with a warning.
var formerColumns = map[string]string{
	"born_s":           "created_s",
	"edge_crowded":     "edge_table_full",
	"pause_rx_packets": "pause_rx_frames",
	"pause_tx_packets": "pause_tx_frames",
}

// adoptColumn replaces the former name of a column by its name now. place is where the file has it.
func (v *resolver) adoptColumn(place any, name *string) {
	if now, ok := formerColumns[*name]; ok {
		v.e.Warnings = append(v.e.Warnings, fmt.Sprintf("%s: the column %s is called %s now: its former name will be unknown in the next release", v.PlaceText(place), *name, now))
		*name = now
	}
}

// adoptColumns does so with a measure's or plot's columns of numbers.
func (v *resolver) adoptColumns(column *string, where yamlfile.Dict[yamlfile.OneOrMore[yamlfile.Scalar]]) {
	if column != nil {
		v.adoptColumn(column, column)
	}
	for i := range where {
		v.adoptColumn(&where[i].Name, &where[i].Name)
	}
}

// checkTable checks the names of a table and of its columns, and the conditions. A series
// may lack a column in a lab without the system that it belongs to.
func (v *resolver) checkTable(of, column *string, where yamlfile.Dict[yamlfile.OneOrMore[yamlfile.Scalar]]) {
	t := v.emptyTable(*of)
	if names := v.tableNames(); !slices.Contains(names, *of) {
		v.ReportFault(of, suggest.Hint(*of, "the tables are", names), "there is no table %q", *of)
		return
	}
	switch {
	case *of == cell.QueueSeries && len(v.e.Record.Queues) == 0:
		v.ReportFault(of, "write record: {every: 10us, queues: '*:*'}", "nothing records queues over time")
	case *of == cell.FlowSeries && len(v.e.Record.Flows) == 0:
		v.ReportFault(of, "write record: {every: 10us, flows: '*'}", "nothing records queue pairs over time")
	}
	check := func(place any, name string) bool {
		if t.FindColumn(name) == nil {
			v.ReportFault(place, suggest.Hint(name, "its columns are", t.Names()), "the table %s has no column %q", t.Name, name)
			return false
		}
		return true
	}
	check(column, *column)
	for i := range where {
		name := where[i].Name
		if !check(&where[i].Name, name) {
			continue
		}
		c := *t.FindColumn(name)
		for k := range where[i].Value {
			f := table.Filter{{Column: name, Any: []string{string(where[i].Value[k])}}}
			if _, err := f.FilterRows(&table.Table{Name: *of, Columns: []table.Column{c}}); err != nil {
				v.ReportFault(&where[i].Value[k], "", "%v", err)
			}
		}
	}
}

// filterOf converts the conditions of a file on a table. Of flows and groups only those that count are
// chosen, unless the file has a condition on that.
func (v *resolver) filterOf(of *string, where yamlfile.Dict[yamlfile.OneOrMore[yamlfile.Scalar]]) (f table.Filter) {
	all := true
	if of != nil {
		if t := v.emptyTable(*of); t != nil && t.FindColumn(cell.Counted) != nil {
			all = !t.FindColumn(cell.Counted).Bool // not a number that a program printed
		}
	}
	for i := range where {
		c := table.Condition{Column: where[i].Name}
		for _, text := range where[i].Value {
			c.Any = append(c.Any, string(text))
		}
		f = append(f, c)
		all = all || c.Column == cell.Counted
	}
	if !all {
		f = append(f, table.Condition{Column: cell.Counted, Any: []string{"true"}})
	}
	return f
}

func (v *resolver) resolveStatistic(name *string, otherwise string) table.Statistic {
	text := otherwise
	override(&text, name)
	s, err := table.ParseStatistic(text)
	if err != nil {
		v.ReportFault(name, "", "%v", err)
	}
	return s
}

// resolveTimed resolves a statistic of tables over time; nil if the name is not that of one.
func (v *resolver) resolveTimed(name *string, f *measureFile) table.Timed {
	switch {
	case name == nil:
		return nil
	case *name == table.Settled:
		return v.resolveSettling(f)
	case *name == table.Reached:
		return v.resolveReaching(name, f)
	}
	return nil
}

// checkTimed checks the keys that only statistics of tables over time have.
func (v *resolver) checkTimed(m *experiment.Measure, f *measureFile) {
	switch {
	case m.OverTimed == nil:
	case m.Timed != nil:
		v.ReportFault(f.Over, "", "stat is a time already: over cannot be %s", *f.Over)
	case m.Per != table.TimeColumn:
		v.ReportFault(f.Over, "write per: "+table.TimeColumn, "over: %s is for the times of a table, but per is %s", *f.Over, m.Per)
	}
	has := func(name string) bool {
		return f.Stat != nil && *f.Stat == name || f.Over != nil && *f.Over == name
	}
	for _, k := range []struct {
		place *yamlfile.Scalar
		name  string
	}{{f.Within, table.Settled}, {f.Target, table.Settled}, {f.Until, table.Reached}} {
		if k.place != nil && !has(k.name) {
			v.ReportFault(k.place, "write stat: "+k.name, "this has no effect without stat: %s", k.name)
		}
	}
}

// resolveReaching resolves a condition on the column, or on the statistic that over combines.
func (v *resolver) resolveReaching(name *string, f *measureFile) table.Timed {
	if f.Until == nil {
		v.ReportFault(name, "write for example until: <100KB", "%s needs until: the condition that ends the time", *name)
		return table.Reaching{}
	}
	column := *f.Column
	if name == f.Over && f.Stat != nil {
		if s, err := table.ParseStatistic(*f.Stat); err == nil && !s.KeepsUnit() {
			column = ""
		}
	}
	b, err := table.ParseBounds(column, string(*f.Until))
	if err != nil {
		v.ReportFault(f.Until, "write for example <100KB, >=10us or 10KB..1MB", "%v", err)
	}
	return table.Reaching{Until: b, Text: string(*f.Until)}
}

// resolveSettling resolves the tolerance and the target of a settling time.
func (v *resolver) resolveSettling(f *measureFile) table.Timed {
	s := table.Settling{Within: 0.1, Target: table.Unknown}
	parse := func(to *float64, column string, text *yamlfile.Scalar, ok func(x float64) bool, hint string) {
		if text == nil {
			return
		}
		x, err := table.Parse(column, string(*text))
		switch *to = x; {
		case err != nil:
			v.ReportFault(text, hint, "%v", err)
		case !ok(x):
			v.ReportFault(text, hint, "%s is out of range", *text)
		}
	}
	parse(&s.Within, "within_share", f.Within, func(x float64) bool { return x > 0 && x < 1 }, "write a share of the target, such as 10%")
	parse(&s.Target, *f.Column, f.Target, func(x float64) bool { return x != 0 }, "write a value that is not 0, such as those of the column "+*f.Column)
	return s
}

// resolveEdges resolves the edges of bins, which must rise; the last may be inf.
func (v *resolver) resolveEdges(f *byForm) (edges []float64) {
	for i := range f.edges {
		x := math.Inf(1)
		if text := string(f.edges[i]); text != "inf" {
			var err error
			if x, err = table.Parse(f.column, text); err != nil {
				v.ReportFault(&f.edges[i], "", "%v", err)
				return nil
			}
		}
		if i > 0 && x <= edges[i-1] {
			v.ReportFault(&f.edges[i], "", "the edges of bins must ascend, but %s is not above the one before it", f.edges[i])
			return nil
		}
		edges = append(edges, x)
	}
	if len(edges) == 1 {
		v.ReportFault(&f.edges[0], "write at least two, such as [0, inf]", "one edge does not make a bin")
		return nil
	}
	return edges
}

// resolvePlots resolves the pictures.
func (v *resolver) resolvePlots() {
	for i := range v.file.Plot {
		name, f := &v.file.Plot[i].Name, &v.file.Plot[i].Value
		if !namePattern.MatchString(*name) {
			v.ReportFault(name, "it is the name of the picture's files: at most 64 letters, digits, _ . -", "%q cannot be a picture's name", *name)
		}
		v.adoptColumns(f.Column, f.Where)
		p := experiment.Plot{Name: *name, Kind: experiment.PlotKind(f.Kind), Where: v.filterOf(f.Of, f.Where), LogX: f.LogX, LogY: f.LogY}
		for _, s := range []struct{ to, from *string }{{&p.Title, f.Title}, {&p.Measure, f.Measure}, {&p.X, f.X}, {&p.Y, f.Y}, {&p.Panels, f.Panels}, {&p.Of, f.Of}, {&p.Column, f.Column}, {&p.Split, f.Split}} {
			override(s.to, s.from)
		}
		v.checkPlot(&p, f)
		v.e.Plots = append(v.e.Plots, p)
	}
}

// plotNeeds lists the keys that each kind of picture requires. A picture cannot have keys
// that only other kinds require.
var plotNeeds = map[experiment.PlotKind][]string{
	experiment.CDF: {"of", "column"}, experiment.Time: {"of", "column"}, experiment.Bins: {"measure"},
	experiment.Line: {"measure", "x"}, experiment.Bars: {"measure", "x"}, experiment.Heat: {"measure", "x", "y"},
}

func (v *resolver) checkPlot(p *experiment.Plot, f *plotFile) {
	for _, key := range []struct {
		name string
		text *string
	}{{"of", f.Of}, {"column", f.Column}, {"measure", f.Measure}, {"x", f.X}, {"y", f.Y}} {
		needed := slices.Contains(plotNeeds[p.Kind], key.name)
		switch {
		case needed && key.text == nil:
			v.ReportFault(f, "a "+string(p.Kind)+" has "+strings.Join(plotNeeds[p.Kind], ", "), "the picture lacks %s", key.name)
			return
		case !needed && key.text != nil:
			v.ReportFault(key.text, "a "+string(p.Kind)+" has "+strings.Join(plotNeeds[p.Kind], ", "), "%s has no effect on a %s", key.name, p.Kind)
			return
		}
	}
	for _, name := range []*string{f.X, f.Y, f.Panels} {
		if name != nil && v.e.FactorIndex(*name) < 0 {
			v.ReportFault(name, suggest.Hint(*name, "the factors are", v.factorNames()), "there is no factor %q", *name)
		}
	}
	if f.Measure != nil {
		m := v.e.FindMeasure(*f.Measure)
		switch {
		case m == nil:
			v.ReportFault(f.Measure, suggest.Hint(*f.Measure, "the measures are", v.measureNames()), "there is no measure %q", *f.Measure)
		case p.Kind == experiment.Bins && m.By == "" && m.Expr == "":
			v.ReportFault(f.Measure, "give the measure by:", "%s has no bins", *f.Measure)
		case p.Kind != experiment.Bins && m.By != "":
			v.ReportFault(f.Measure, "draw it as bins", "%s has bins", *f.Measure)
		}
	}
	if f.Of != nil && f.Column != nil {
		v.checkTable(f.Of, f.Column, f.Where)
		if t := v.emptyTable(*f.Of); p.Kind == experiment.Time && t != nil && t.FindColumn("time_s") == nil {
			v.ReportFault(f.Of, "draw a table with a column time_s, such as queue-series or flow-series, over time", "the table %s is not over time", *f.Of)
		}
		if t := v.emptyTable(*f.Of); f.Split != nil && t != nil {
			switch c := t.FindColumn(*f.Split); {
			case c == nil && v.e.FactorIndex(*f.Split) >= 0:
				v.ReportFault(f.Split, "leave it out: each level of a factor other than panels has its own line", "split needs a column of the table %s, but %s is a factor", *f.Of, *f.Split)
			case c == nil:
				v.ReportFault(f.Split, suggest.Hint(*f.Split, "its columns are", t.Names()), "the table %s has no column %q", *f.Of, *f.Split)
			case !c.IsText():
				v.ReportFault(f.Split, "split by a column of texts", "%s of table %s is numbers", *f.Split, *f.Of)
			}
		}
	}
}

func (v *resolver) measureNames() (names []string) {
	for i := range v.e.Measures {
		names = append(names, v.e.Measures[i].Name)
	}
	return names
}

// resolvePaper resolves the paper's values.
func (v *resolver) resolvePaper() {
	for i := range v.file.Paper {
		f := &v.file.Paper[i]
		m := v.e.FindMeasure(f.Measure)
		if m == nil {
			v.ReportFault(&f.Measure, suggest.Hint(f.Measure, "the measures are", v.measureNames()), "there is no measure %q", f.Measure)
			continue
		}
		p := experiment.PaperValue{Measure: f.Measure, Source: f.Source, Origin: experiment.Origin(f.Origin)}
		var err error
		if p.Value, err = table.Parse(m.Unit(), string(f.Value)); err != nil {
			v.ReportFault(&f.Value, "", "value: %v", err)
		}
		ok := true
		for k := range f.At {
			name, level := f.At[k].Name, string(f.At[k].Value)
			if name == "bin" {
				p.Bin = level
				ok = v.checkBin(m, &f.At[k].Value, level) && ok
				continue
			}
			n := v.e.FactorIndex(name)
			switch {
			case n < 0:
				v.ReportFault(&f.At[k].Name, suggest.Hint(name, "the factors are", v.factorNames()), "there is no factor %q", name)
			case v.e.Factors[n].LevelIndex(level) < 0 && v.options.Quick:
				ok = false // the quick form leaves out this level
			case v.e.Factors[n].LevelIndex(level) < 0:
				v.ReportFault(&f.At[k].Value, suggest.Hint(level, "its levels are", v.e.Factors[n].Levels), "%s has no level %q", name, level)
			}
			if p.At == nil {
				p.At = map[string]string{}
			}
			p.At[name] = level
		}
		if ok {
			v.e.Paper = append(v.e.Paper, p)
		}
	}
}

// checkBin checks the name of a bin of a measure whose bins are known.
func (v *resolver) checkBin(m *experiment.Measure, place any, bin string) bool {
	if m.By == "" && m.Expr == "" {
		v.ReportFault(place, "", "%s has no bins", m.Name)
		return false
	}
	var names []string
	for i := range max(len(m.Edges)-1, 0) {
		names = append(names, experiment.BinName(m.By, m.Edges, i))
	}
	if names != nil && !slices.Contains(names, bin) {
		v.ReportFault(place, suggest.Hint(bin, "its bins are", names), "%s has no bin %q", m.Name, bin)
		return false
	}
	return true
}

// resolveExpectations resolves the expectations.
func (v *resolver) resolveExpectations() {
	list := v.file.Expect
	if v.options.Quick && v.file.Quick != nil && v.file.Quick.Expect != nil {
		list = v.file.Quick.Expect
	}
	for i := range list {
		x, err := v.e.NewExpectation(list[i])
		if err != nil {
			v.ReportFault(&list[i], "", "%s", firstLine(err))
		}
		v.e.Expect = append(v.e.Expect, x)
	}
}
