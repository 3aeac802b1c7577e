// Package units defines the physical quantities of the emulator as types, so that a
// number never travels without its unit. Each type parses and prints the form used
// in lab files ("10Gbps", "50us", "1MB", "0.1%") and reads the same form from YAML
// and JSON.
//
// Arithmetic is exact, in integers, except for Fraction, Rate.BytesIn and what converts to float64.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// splitNumber splits s into its leading decimal number and the unit after it.
func splitNumber(s string) (num, unit string, err error) {
	s = strings.TrimSpace(s)
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' || (i == 0 && (s[i] == '-' || s[i] == '+'))) {
		i++
	}
	if i == 0 || strings.Trim(s[:i], "+-.") == "" {
		return "", "", fmt.Errorf("%q does not begin with a number", s)
	}
	return s[:i], strings.TrimSpace(s[i:]), nil
}

// scaleDecimal multiplies the decimal number num by per, rounding to the nearest
// integer. It is exact for up to 18 significant digits.
func scaleDecimal(num string, per int64) (int64, error) {
	neg := strings.HasPrefix(num, "-")
	num = strings.TrimLeft(num, "+-")
	whole, frac, _ := strings.Cut(num, ".")
	if strings.Contains(frac, ".") {
		return 0, fmt.Errorf("%q is not a number", num)
	}
	var w int64
	if whole != "" {
		var err error
		if w, err = strconv.ParseInt(whole, 10, 64); err != nil {
			return 0, fmt.Errorf("%q is too large", num)
		}
	}
	if w != 0 && w > math.MaxInt64/per {
		return 0, fmt.Errorf("%q is too large", num)
	}
	v := w * per
	if frac != "" {
		f, err := strconv.ParseFloat("0."+frac, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", num)
		}
		add := int64(math.Round(f * float64(per)))
		if v > math.MaxInt64-add {
			return 0, fmt.Errorf("%q is too large", num)
		}
		v += add
	}
	if neg {
		v = -v
	}
	return v, nil
}

// unitOf is one accepted unit: its spelling and its size.
type unitOf struct {
	name string
	per  int64
}

// formatUnit formats v in the largest unit of which it is a multiple at up to three
// decimals, so that the text parses back to v.
func formatUnit(v int64, table []unitOf) string {
	if v == 0 {
		return "0" + table[len(table)-1].name
	}
	abs := v
	if abs < 0 {
		abs = -abs
	}
	for _, u := range table {
		if abs < u.per {
			continue
		}
		if v%u.per == 0 {
			return strconv.FormatInt(v/u.per, 10) + u.name
		}
		if u.per >= 1000 && v%(u.per/1000) == 0 {
			s := fmt.Sprintf("%d.%03d", abs/u.per, abs%u.per/(u.per/1000))
			if v < 0 {
				s = "-" + s
			}
			return strings.TrimRight(s, "0") + u.name
		}
	}
	last := table[len(table)-1]
	return strconv.FormatInt(v/last.per, 10) + last.name
}

func lookupUnit(unit string, table []unitOf, fold bool) (int64, bool) {
	for _, u := range table {
		if u.name == unit || fold && strings.EqualFold(u.name, unit) {
			return u.per, true
		}
	}
	return 0, false
}

func unitNames(table []unitOf) string {
	s := make([]string, len(table))
	for i, u := range table {
		s[len(table)-1-i] = u.name
	}
	return strings.Join(s, ", ")
}

// stripQuotes strips JSON quotes, so that one parser serves YAML and JSON.
func stripQuotes(b []byte) string {
	s := strings.TrimSpace(string(b))
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		s = s[1 : len(s)-1]
	}
	return s
}
