package output

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
)

// expression is a regular expression whose groups are columns of numbers.
type expression struct {
	*regexp.Regexp
	groups []int // named groups
}

// compileExpression checks an expression and its groups. ^ and $ match the ends of lines.
func compileExpression(r *experiment.Reading) (*expression, error) {
	if _, err := regexp.Compile(r.Expr); err != nil {
		return nil, err // without the prefix added below
	}
	re, err := regexp.Compile(`(?m)` + r.Expr)
	if err != nil {
		return nil, err
	}
	e := &expression{Regexp: re}
	var seen []string
	for i, name := range re.SubexpNames() {
		switch {
		case name == "":
			continue
		case name == "program" || name == "host":
			return nil, fmt.Errorf("a group cannot be named %s, which is a column of every table", name)
		case slices.Contains(seen, name):
			return nil, fmt.Errorf("duplicate group %s", name)
		}
		seen = append(seen, name)
		e.groups = append(e.groups, i)
	}
	if e.groups == nil {
		return nil, errors.New(`the expression has no named group: write for example "took (?P<time_ms>[0-9.]+) ms"`)
	}
	return e, nil
}

// emptyTable returns the table of an expression without rows.
func (e *expression) emptyTable(name string) *table.Table {
	t := table.Of[source](name, nil)
	for _, i := range e.groups {
		t.Columns = append(t.Columns, table.Column{Name: e.SubexpNames()[i], Numbers: []float64{}})
	}
	return t
}

// readRegexp reads the output of any program: each match is a row. A group that does not
// take part in a match is unknown.
func readRegexp(r *experiment.Reading, s source, text []byte) (table.Bundle, error) {
	e, err := compileExpression(r)
	if err != nil {
		return nil, err
	}
	t := e.emptyTable(r.Table)
	matches := e.FindAllSubmatch(text, -1)
	if matches == nil {
		return nil, fmt.Errorf("nothing in it matches %s", r.Expr)
	}
	for _, m := range matches {
		t.Columns[0].Texts = append(t.Columns[0].Texts, s.Program)
		t.Columns[1].Texts = append(t.Columns[1].Texts, s.Host)
		for k, i := range e.groups {
			c := &t.Columns[2+k]
			x := table.Unknown
			if m[i] != nil {
				if x, err = strconv.ParseFloat(string(m[i]), 64); err != nil {
					return nil, fmt.Errorf("%s is %q, which is not a number", c.Name, m[i])
				}
			}
			c.Numbers = append(c.Numbers, x)
		}
	}
	return table.Bundle{t}, nil
}
