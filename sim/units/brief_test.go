package units

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var someUnits = []Prefix{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

func TestBrief(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0B"}, {1, "1B"}, {999, "999B"}, {999.4, "999B"}, {999.6, "1KB"}, {1234, "1.23KB"}, {999_499, "999KB"}, {999_950, "1MB"},
		{1e12, "1000GB"}, {123456e9, "123000GB"}, {6.14e-6, "<0.01B"}, {0.0099999, "0.01B"}, {0.123456, "0.123B"}, {-1500, "-1.5KB"}, {-6e-6, "-<0.01B"},
	} {
		if got := FormatBrief(c.v, 3, someUnits); got != c.want {
			t.Errorf("%v prints %s, want %s", c.v, got, c.want)
		}
	}
	for v, want := range map[float64]string{0.00001: "0.00001", 1234567: "1230000", 100: "100", math.Copysign(0, -1): "0"} {
		if got := FormatDigits(v, 3); got != want {
			t.Errorf("%v prints %s, want %s", v, got, want)
		}
	}
	if got := FormatPercent(1.234e-7, 3); got != "0.0000123%" {
		t.Errorf("a small share prints %s", got)
	}
}

// TestBriefIsNear: a brief text has no exponent and no needless digit, and is
// accurate to its digits; its unit is the largest in which the number is at least 1.
func TestBriefIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "digits")
		v := math.Pow(10, rapid.Float64Range(-9, 15).Draw(t, "log10"))
		text := FormatBrief(v, n, someUnits)
		if text == "<0.01B" {
			if v >= 0.01 {
				t.Fatalf("%v prints %s", v, text)
			}
			return
		}
		number := strings.TrimRight(text, "GMKB")
		if strings.ContainsAny(number, "eE+") || strings.Contains(number, ".") && strings.HasSuffix(number, "0") {
			t.Fatalf("%v prints %s", v, text)
		}
		got, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		unit := text[len(number):]
		for i, u := range someUnits {
			if u.Name == unit {
				if i > 0 && got*u.Per >= someUnits[i-1].Per || i < len(someUnits)-1 && got < 1 {
					t.Fatalf("%v prints %s: the unit is not the best", v, text)
				}
				got *= u.Per
			}
		}
		if math.Abs(got-v) > 0.5000001*math.Pow(10, math.Floor(math.Log10(v))+1-float64(n)) {
			t.Fatalf("%v prints %s to %d digits", v, text, n)
		}
	})
}

// TestSharesPrintedParseBack: printed shares parse back to 12 digits, and have no
// exponent, which only programmers read.
func TestSharesPrintedParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Fraction(math.Pow(10, rapid.Float64Range(-11.9, 0).Draw(t, "log10")))
		got, err := ParseFraction(f.String())
		if err != nil || math.Abs(float64(got-f)) > 1e-11*float64(f) {
			t.Fatalf("share %v prints %s, read as %v, %v", float64(f), f, float64(got), err)
		}
		if strings.ContainsAny(f.String(), "e+") {
			t.Fatalf("share %v prints %s", float64(f), f)
		}
	})
}
