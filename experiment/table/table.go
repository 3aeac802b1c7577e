// Package table holds the output of a run for measurement: tables of records, samples and
// counters, stored by column. A column holds numbers or text.
//
// The suffix of a column's name gives the unit of its numbers, as in all files that weft
// writes: _s, _ms, _us and _ns are times, _bytes bytes, _bps bits per second, _share a
// share of 1; a column without such a suffix is a plain number.
package table

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Table is rows of a few columns, all of the same length.
type Table struct {
	Name    string
	Columns []Column
}

// Column is one column: numbers, where NaN is an unknown number, or texts.
type Column struct {
	Name    string
	Numbers []float64 // nil for a column of texts
	Texts   []string  // nil for a column of numbers
	Bool    bool      // the numbers are 1 for true and 0 for false
}

// IsText reports whether the column holds text.
func (c *Column) IsText() bool { return c.Texts != nil }

// Len returns the number of its rows.
func (c *Column) Len() int { return max(len(c.Numbers), len(c.Texts)) }

// Len returns the number of rows.
func (t *Table) Len() int {
	if len(t.Columns) == 0 {
		return 0
	}
	return t.Columns[0].Len()
}

// FindColumn returns a column by its name; nil if there is none.
func (t *Table) FindColumn(name string) *Column {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Columns[i]
}

// Names returns the names of the columns.
func (t *Table) Names() (names []string) {
	for i := range t.Columns {
		names = append(names, t.Columns[i].Name)
	}
	return names
}

// Of makes a table from records: the columns are the struct's fields, including those of
// embedded structs, by their JSON names. Fields that are not text, numbers or bools are
// left out.
func Of[T any](name string, records []T) *Table {
	t := &Table{Name: name}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || key == "" || key == "-" {
			continue
		}
		c := Column{Name: key}
		switch {
		case f.Type.Kind() == reflect.String:
			c.Texts = make([]string, len(records))
		case isNumber(f.Type.Kind()):
			c.Numbers, c.Bool = make([]float64, len(records)), f.Type.Kind() == reflect.Bool
		default:
			continue
		}
		for i := range records {
			v := reflect.ValueOf(&records[i]).Elem().FieldByIndex(f.Index)
			if c.Texts != nil {
				c.Texts[i] = v.String()
			} else {
				c.Numbers[i] = numberOf(v)
			}
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

func isNumber(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Float64 }

func numberOf(v reflect.Value) float64 {
	switch {
	case v.Kind() == reflect.Bool:
		return NumberOfBool(v.Bool())
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

// NumberOfBool returns a number of a column of booleans: 1 for true, 0 for false.
func NumberOfBool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Check checks that the columns fit together.
func (t *Table) Check() error {
	seen := map[string]bool{}
	for i := range t.Columns {
		c := &t.Columns[i]
		switch {
		case seen[c.Name]:
			return fmt.Errorf("table %s has two columns %s", t.Name, c.Name)
		case c.Numbers != nil && c.Texts != nil:
			return fmt.Errorf("table %s: column %s has both numbers and texts", t.Name, c.Name)
		case c.Len() != t.Len():
			return fmt.Errorf("table %s: column %s has %d rows, the first has %d", t.Name, c.Name, c.Len(), t.Len())
		}
		seen[c.Name] = true
	}
	return nil
}

// Unknown is an unknown number.
var Unknown = math.NaN()

// Number is a number that may be unknown; unknown is null in JSON.
type Number float64

// IsKnown reports whether the number is known.
func (n Number) IsKnown() bool { return !math.IsNaN(float64(n)) }

// MarshalJSON returns the number, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if x := float64(n); !math.IsNaN(x) && !math.IsInf(x, 0) {
		return json.Marshal(x)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads a number, or null.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(Unknown)
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}
