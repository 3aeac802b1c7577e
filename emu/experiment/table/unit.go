package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Unit is what the numbers of a column count.
type Unit uint8

// The units.
const (
	Plain   Unit = iota
	Seconds      // also of ms, us and ns: those differ in scale
	Bytes
	BitsPerSecond
	Share
)

// endings are the endings of columns' names with their units and scales: a number times
// the scale is in the unit.
var endings = []struct {
	ending string
	unit   Unit
	scale  float64
}{
	{"_ns", Seconds, 1e-9}, {"_us", Seconds, 1e-6}, {"_ms", Seconds, 1e-3}, {"_s", Seconds, 1},
	{"_bytes", Bytes, 1}, {"_bps", BitsPerSecond, 1}, {"_share", Share, 1},
}

// UnitOf tells the unit of a column by its name. A number of the column times scale is in
// that unit.
func UnitOf(column string) (u Unit, scale float64) {
	for _, e := range endings {
		if strings.HasSuffix(column, e.ending) {
			return e.unit, e.scale
		}
	}
	return Plain, 1
}

// Parse reads a value of a column as a lab file writes it: "10us", "100KB", "40Gbps",
// "5%", or a plain number in the column's own unit.
func Parse(column, text string) (float64, error) {
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x, nil
	}
	u, scale := UnitOf(column)
	switch u {
	case Seconds:
		t, err := units.ParseTime(text)
		// From whole picoseconds, so that 0.02ms is 20 of _us to the last bit.
		return float64(t) / math.Round(scale*float64(units.Second)), err
	case Bytes:
		b, err := units.ParseBytes(text)
		return float64(b), err
	case BitsPerSecond:
		r, err := units.ParseRate(text)
		return float64(r), err
	case Share:
		f, err := units.ParseFraction(text)
		return float64(f), err
	}
	return 0, fmt.Errorf("%q is not a number", text)
}

// Format prints a value of a column for people, with its unit: "12.3us", "100KB",
// "39.8Gbps", to so many digits that count.
func Format(column string, x float64, digits int) string {
	u, scale := UnitOf(column)
	switch {
	case math.IsNaN(x):
		return "-"
	case math.IsInf(x, 0):
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	x *= scale
	switch u {
	case Seconds:
		return withPrefix(x, digits, "s", timePrefixes)
	case Bytes:
		return withPrefix(x, digits, "B", decimalPrefixes)
	case BitsPerSecond:
		return withPrefix(x, digits, "bps", decimalPrefixes)
	case Share:
		return significant(100*x, digits) + "%"
	}
	return significant(x, digits)
}

// prefix is one of a unit.
type prefix struct {
	name  string
	scale float64
}

// From the largest down.
var (
	timePrefixes    = []prefix{{"", 1}, {"m", 1e-3}, {"u", 1e-6}, {"n", 1e-9}, {"p", 1e-12}}
	decimalPrefixes = []prefix{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"", 1}}
)

func withPrefix(x float64, digits int, unit string, prefixes []prefix) string {
	if x == 0 {
		return "0" + unit
	}
	last := prefixes[len(prefixes)-1]
	for _, p := range prefixes {
		// What would be rounded up to 1000 of a unit is 1 of the next.
		if rounded, _ := strconv.ParseFloat(significant(x/p.scale, digits), 64); math.Abs(rounded) >= 1 {
			return significant(x/p.scale, digits) + p.name + unit
		}
	}
	return significant(x/last.scale, digits) + last.name + unit
}

// significant prints x to so many digits that count, without exponent where it is
// neither large nor small.
func significant(x float64, digits int) string {
	size := math.Abs(x)
	if size != 0 && (size < 1e-4 || size >= 1e12) {
		return strconv.FormatFloat(x, 'g', digits, 64)
	}
	// As many digits behind the point as are left of those before it.
	before := 1
	if size > 0 {
		before = int(math.Floor(math.Log10(size))) + 1 // of 0.05 there are -1
	}
	text := strconv.FormatFloat(x, 'f', max(digits-before, 0), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
