package axis

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		units []Unit
		v     float64
		fit   string
		of    string
	}{
		{Seconds, 0, "ns", "ns"}, {Seconds, 1.2e-6, "ns", "µs"}, {Seconds, 1e-3, "µs", "ms"}, {Seconds, 3, "s", "s"},
		{Sizes, 1000, "B", "KB"}, {Sizes, 1500, "KB", "KB"}, {Sizes, 1e15, "TB", "TB"}, {Rates, 25e9, "Gb/s", "Gb/s"},
		{Percent, 0.5, "%", "%"},
		{Sizes, math.Nextafter(1e6, 0), "KB", "MB"}, // smaller by a rounding error
	} {
		if fit, of := Fit(c.units, c.v).Name, Of(c.units, c.v).Name; fit != c.fit || of != c.of {
			t.Errorf("%v: %q and %q, want %q and %q", c.v, fit, of, c.fit, c.of)
		}
	}
}

// TestEvenLabels checks that labels have the decimals that they need.
func TestEvenLabels(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{{0, 10, "0 2 4 6 8 10"}, {0, 1.02, "0.0 0.2 0.4 0.6 0.8 1.0"}, {5000.1, 5000.2, "5000.10 5000.12 5000.14 5000.16 5000.18 5000.20"}, {0, 1e6, "0 200000 400000 600000 800000 1000000"}, {1, 1, ""}} {
		var labels []string
		for _, k := range Even(c.low, c.high, 6) {
			labels = append(labels, k.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}

// TestEven checks that marks are round, even, within the range, as many as requested, and
// that their labels match their values.
func TestEven(t *testing.T) {
	if Even(1, 1, 5) != nil || Even(2, 1, 5) != nil || Even(0, math.NaN(), 5) != nil || Even(0, math.Inf(1), 5) != nil {
		t.Error("marks on an axis without a length")
	}
	rapid.Check(t, func(t *rapid.T) {
		span := math.Pow(10, rapid.Float64Range(-9, 12).Draw(t, "span"))
		low := rapid.Float64Range(-3, 3).Draw(t, "low") * span
		about := rapid.IntRange(2, 10).Draw(t, "about")
		ticks := Even(low, low+span, about)
		if len(ticks) > about+1 || len(ticks) < about*2/5 {
			t.Fatalf("%d marks, about %d were asked for", len(ticks), about)
		}
		for i, tick := range ticks {
			label, err := strconv.ParseFloat(tick.Label, 64)
			if err != nil || math.Abs(label-tick.Value) > 1e-9*span {
				t.Fatalf("%v is labelled %q", tick.Value, tick.Label)
			}
			if tick.Value < low-1e-8*span || tick.Value > low+span*(1+1e-8) {
				t.Fatalf("a mark at %v of an axis from %v to %v", tick.Value, low, low+span)
			}
			if i > 1 && math.Abs((tick.Value-ticks[i-1].Value)/(ticks[1].Value-ticks[0].Value)-1) > 1e-6 {
				t.Fatalf("uneven: %v", ticks)
			}
		}
	})
}
