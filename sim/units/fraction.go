package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Fraction is a share or a probability between 0 and 1.
type Fraction float64

// ParseFraction reads "1%", "0.01", "1e-6" or "0". The result lies within [0, 1]. A
// bare 1 is refused: it could mean one percent or everything.
func ParseFraction(s string) (Fraction, error) {
	t := strings.TrimSpace(s)
	per := 1.0
	if p, ok := strings.CutSuffix(t, "%"); ok {
		t, per = strings.TrimSpace(p), 100
	}
	v, err := strconv.ParseFloat(t, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a share: write a percentage such as 0.1%% or a number from 0 to 1", s)
	}
	if v == 1 && per == 1 {
		return 0, fmt.Errorf("%q may mean 1%% or 100%%: write one of them", s)
	}
	v /= per
	if !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is outside 0%% to 100%%", s)
	}
	return Fraction(v), nil
}

// plainShare is the smallest share that prints without an exponent.
const plainShare = 1e-12

// String prints f as a percentage of 12 significant digits.
func (f Fraction) String() string {
	if f > 0 && f < plainShare {
		return strconv.FormatFloat(float64(f)*100, 'g', 12, 64) + "%"
	}
	return FormatPercent(float64(f), 12)
}

// MarshalText and UnmarshalText carry f through JSON and YAML.
func (f Fraction) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText calls ParseFraction.
func (f *Fraction) UnmarshalText(b []byte) (err error) {
	*f, err = ParseFraction(stripQuotes(b))
	return
}
