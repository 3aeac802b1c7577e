// Package table is what a run leaves behind for those who measure it: tables of records,
// samples and counters, by columns. A column is numbers or texts.
//
// The unit of a column of numbers is in the ending of its name, as in all files that weft
// writes: _s, _ms, _us and _ns are times, _bytes bytes, _bps bits per second, _share a
// share of 1; a column without such an ending is a plain number.
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

// Column is one column: numbers, where NaN is a number that is not known, or texts.
type Column struct {
	Name    string
	Numbers []float64 // nil for a column of texts
	Texts   []string  // nil for a column of numbers
}

// IsText tells whether the column holds texts.
func (c *Column) IsText() bool { return c.Texts != nil }

// Len is the number of its rows.
func (c *Column) Len() int { return max(len(c.Numbers), len(c.Texts)) }

// Len is the number of rows.
func (t *Table) Len() int {
	if len(t.Columns) == 0 {
		return 0
	}
	return t.Columns[0].Len()
}

// Column finds a column by its name; nil for none.
func (t *Table) Column(name string) *Column {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Columns[i]
}

// Names are the names of the columns.
func (t *Table) Names() (names []string) {
	for i := range t.Columns {
		names = append(names, t.Columns[i].Name)
	}
	return names
}

// Of makes a table of records: a struct's fields by their names in JSON, those of
// embedded structs among them. Fields that are neither text nor number nor bool are left
// out; a bool is 1 or 0.
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
			c.Numbers = make([]float64, len(records))
		default:
			continue
		}
		for i := range records {
			v := reflect.ValueOf(&records[i]).Elem().FieldByIndex(f.Index)
			if c.Texts != nil {
				c.Texts[i] = v.String()
			} else {
				c.Numbers[i] = number(v)
			}
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

func isNumber(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Float64 }

func number(v reflect.Value) float64 {
	switch {
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

// Check tells whether the columns fit together.
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

// Unknown is a number that is not known.
var Unknown = math.NaN()

// Number is a number that may not be known, which in JSON is null.
type Number float64

// Known tells whether the number is.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) }

// MarshalJSON gives the number, or null.
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
