package table

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/weftlab/weft/emu/suggest"
)

// Filter selects the rows of a table that meet all conditions.
type Filter []Condition

// Condition is a condition on a column: one of several alternatives.
type Condition struct {
	Column string
	Any    []string // in the syntax of ParseBounds, text patterns, or true and false
}

// Bounds is the interval of numbers Low <= x < High.
type Bounds struct{ Low, High float64 }

// Has reports whether x is within the bounds.
func (b Bounds) Has(x float64) bool { return x >= b.Low && x < b.High }

// ParseBounds parses a condition on the numbers of a column: "<100KB", "<=1ms", ">10us",
// ">=10us", "10KB..1MB" (from the first to the second, exclusive) or a single value,
// optionally with a leading =.
func ParseBounds(column, text string) (Bounds, error) {
	parse := func(s string) (float64, error) { return Parse(column, strings.TrimSpace(s)) }
	above := func(x float64) float64 { return math.Nextafter(x, math.Inf(1)) }
	all := Bounds{math.Inf(-1), math.Inf(1)}
	var err error
	switch rest, ok := strings.CutPrefix(text, "<="); {
	case ok:
		all.High, err = parse(rest)
		all.High = above(all.High)
		return all, err
	case strings.HasPrefix(text, "<"):
		all.High, err = parse(text[1:])
		return all, err
	case strings.HasPrefix(text, ">="):
		all.Low, err = parse(text[2:])
		return all, err
	case strings.HasPrefix(text, ">"):
		all.Low, err = parse(text[1:])
		all.Low = above(all.Low)
		return all, err
	}
	if low, high, ok := strings.Cut(text, ".."); ok {
		if all.Low, err = parse(low); err != nil {
			return all, err
		}
		if all.High, err = parse(high); err == nil && all.High <= all.Low {
			err = fmt.Errorf("%q is empty: the end is not above the beginning", text)
		}
		return all, err
	}
	x, err := parse(strings.TrimPrefix(text, "="))
	return Bounds{x, above(x)}, err
}

// matcher reports whether a row meets a condition.
type matcher func(row int) bool

// matcherOf returns the condition's matcher for a table.
func (c *Condition) matcherOf(t *Table) (matcher, error) {
	col := t.FindColumn(c.Column)
	if col == nil {
		return nil, &UnknownColumnError{Table: t.Name, Column: c.Column, Has: t.Names()}
	}
	if col.IsText() {
		for _, pattern := range c.Any {
			if _, err := path.Match(pattern, ""); err != nil {
				return nil, fmt.Errorf("%s: %q is not a pattern: a [ needs its ]", c.Column, pattern)
			}
		}
		return func(row int) bool {
			for _, pattern := range c.Any {
				if ok, _ := path.Match(pattern, col.Texts[row]); ok {
					return true
				}
			}
			return false
		}, nil
	}
	var any []Bounds
	for _, text := range c.Any {
		if col.Bool && (text == "true" || text == "false") {
			x := NumberOfBool(text == "true")
			any = append(any, Bounds{x, math.Nextafter(x, math.Inf(1))})
			continue
		}
		b, err := ParseBounds(c.Column, text)
		switch {
		case err != nil && col.Bool:
			return nil, fmt.Errorf("%s: %w: write true or false", c.Column, err)
		case err != nil:
			return nil, fmt.Errorf("%s: %w: write for example <100KB, >=10us, 10KB..1MB or a value", c.Column, err)
		}
		any = append(any, b)
	}
	return func(row int) bool {
		for _, b := range any {
			if b.Has(col.Numbers[row]) {
				return true
			}
		}
		return false
	}, nil
}

// UnknownColumnError reports a column that a table does not have.
type UnknownColumnError struct {
	Table, Column string
	Has           []string
}

func (e *UnknownColumnError) Error() string {
	return fmt.Sprintf("table %s has no column %q: %s", e.Table, e.Column, suggest.Hint(e.Column, "it has", e.Has))
}

// FilterRows returns the numbers of the rows that pass the filter.
func (f Filter) FilterRows(t *Table) ([]int, error) {
	all := make([]matcher, len(f))
	for i := range f {
		var err error
		if all[i], err = f[i].matcherOf(t); err != nil {
			return nil, err
		}
	}
	var rows []int
rows:
	for row := range t.Len() {
		for _, m := range all {
			if !m(row) {
				continue rows
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}
