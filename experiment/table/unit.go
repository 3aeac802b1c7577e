package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Unit is the unit of a column's numbers.
type Unit uint8

// The units.
const (
	Plain   Unit = iota
	Seconds      // also for ms, us and ns, which differ in scale
	Bytes
	BitsPerSecond
	Share
)

// endings are the suffixes of column names with their units and scales: a number times
// the scale is in the unit.
var endings = []struct {
	ending string
	unit   Unit
	scale  float64
}{
	{"_ns", Seconds, 1e-9}, {"_us", Seconds, 1e-6}, {"_ms", Seconds, 1e-3}, {"_s", Seconds, 1},
	{"_bytes", Bytes, 1}, {"_bps", BitsPerSecond, 1}, {"_share", Share, 1},
}

// UnitOf returns the unit of a column by its name. A number of the column times scale is
// in that unit.
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
		// Computed from whole picoseconds, so that 0.02ms is exactly 20 of _us.
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

// Format formats a value of a column with its unit, "12.3us", "100KB" or "39.8Gbps", with
// the given number of significant digits.
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
		if x == 0 {
			return "0s"
		}
		return units.FormatBrief(x, digits, units.InSeconds)
	case Bytes:
		return units.FormatBrief(x, digits, units.InBytes)
	case BitsPerSecond:
		return units.FormatBrief(x, digits, units.InBitsPerSecond)
	case Share:
		return units.FormatPercent(x, digits)
	}
	if math.Abs(x) >= math.Pow10(digits) {
		return strconv.FormatFloat(x, 'f', 0, 64) // an integer has no more digits
	}
	return units.FormatDigits(x, digits)
}
