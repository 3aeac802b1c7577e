// Package gauge describes the values that can be read from a running system: each
// has a name and a unit. Code that prints, samples or exports them need not know the
// system.
package gauge

import (
	"fmt"
	"math"

	"github.com/weftlab/weft/sim/units"
)

// Unit is the unit of a gauge's value.
type Unit uint8

// The units. A value is a float64 in the named unit.
const (
	Number Unit = iota
	Bytes
	BitsPerSecond
	Seconds
	Share // 0 to 1
	YesNo // 1 means yes
)

var unitNames = [...]string{"", "B", "b/s", "s", "share", "yes/no"}

// String returns the unit's symbol, "" for a plain number.
func (u Unit) String() string { return unitNames[u] }

// MarshalText returns the symbol.
func (u Unit) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads a symbol.
func (u *Unit) UnmarshalText(b []byte) error {
	for i, name := range unitNames {
		if name == string(b) {
			*u = Unit(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a unit of gauges", b)
}

// Gauge describes one value. Its name is lower-case words joined by _, without the unit.
type Gauge struct {
	Name string
	Unit Unit
	Help string // a short phrase: "estimate of congestion"
	// Brief gauges appear in tables, which have room for few.
	Brief bool
}

// Value is the reading of a gauge.
type Value struct {
	Name  string  `json:"name"`
	Unit  Unit    `json:"unit,omitempty"`
	Value float64 `json:"value"`
	Brief bool    `json:"brief,omitempty"`
}

// None is the value of a gauge that currently has no meaning.
var None = math.NaN()

// Read returns the values with their gauges, in the same order, except those that are None.
func Read(gauges []Gauge, values []float64) []Value {
	if len(values) != len(gauges) {
		panic(fmt.Sprintf("gauge: %d values for %d gauges", len(values), len(gauges)))
	}
	out := make([]Value, 0, len(values))
	for i, g := range gauges {
		if !math.IsNaN(values[i]) {
			out = append(out, Value{Name: g.Name, Unit: g.Unit, Value: values[i], Brief: g.Brief})
		}
	}
	return out
}

// BoolValue returns 1 for true and 0 for false: a value of YesNo.
func BoolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// RateValue returns a rate as a gauge's value, in b/s.
func RateValue(r units.Rate) float64 { return float64(r) }

// SizeValue returns an amount of data as a gauge's value, in bytes.
func SizeValue(n units.Bytes) float64 { return float64(n) }

// TimeValue returns a time as a gauge's value, in seconds.
func TimeValue(t units.Time) float64 { return t.Seconds() }
