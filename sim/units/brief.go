package units

import (
	"math"
	"strconv"
)

// Prefix is a unit of a brief text and its size in the quantity that is printed.
type Prefix struct {
	Name string
	Per  float64 // above 0
}

// The units of quantities, for FormatBrief.
var (
	InSeconds       = []Prefix{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"ps", 1e-12}}
	InBytes         = []Prefix{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}
	InBitsPerSecond = []Prefix{{"Tbps", 1e12}, {"Gbps", 1e9}, {"Mbps", 1e6}, {"Kbps", 1e3}, {"bps", 1}}
)

// FormatBrief formats v to n significant digits in the largest of the units in which that
// is at least 1: 999,999 B are "1MB", not "1e+03KB". The units come largest first.
// Less than a hundredth of the smallest unit has no useful digits and prints as
// "<0.01B". The text is for people and does not parse back; String of the types is
// exact.
func FormatBrief(v float64, n int, units []Prefix) string {
	smallest := units[len(units)-1]
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return FormatDigits(v, n) + smallest.Name
	}
	if v < 0 {
		return "-" + FormatBrief(-v, n, units)
	}
	v = roundDigits(v, n)
	if v < smallest.Per/100 {
		return "<0.01" + smallest.Name
	}
	for _, u := range units {
		if v >= u.Per {
			return FormatDigits(v/u.Per, n) + u.Name
		}
	}
	return FormatDigits(v/smallest.Per, n) + smallest.Name
}

// FormatDigits formats v to n significant digits as a plain decimal: without an exponent
// or trailing zeros.
func FormatDigits(v float64, n int) string {
	v = roundDigits(v, n)
	if v == 0 {
		return "0" // not -0
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// FormatPercent formats a share to n significant digits as a percentage.
func FormatPercent(share float64, n int) string { return FormatDigits(100*share, n) + "%" }

// roundDigits rounds v to n significant digits. It goes through a decimal text, since 0.1
// has no exact binary form.
func roundDigits(v float64, n int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64)
	if err != nil { // rounded up beyond what a float64 holds
		return v
	}
	return r
}
