package figure

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"pgregory.net/rapid"
)

// unit is a canvas of size 1.
func unit() *draw.Canvas {
	c := draw.NewCanvas(&recorder.Canvas{}, 1, 1)
	return &c
}

func TestText_IsSplitIntoParts(t *testing.T) {
	for _, c := range []struct {
		line string
		want []part
	}{
		{"", nil},
		{"plain_name^2", []part{{"plain_name^2", 1, 0}}},
		{"K_{min} = 10^{3}", []part{{"K", 1, 0}, {"min", 0.72, -0.16}, {" = 10", 1, 0}, {"3", 0.72, 0.36}}},
		{"a_b_{c}", []part{{"a_b", 1, 0}, {"c", 0.72, -0.16}}},
		{"open^{x", []part{{"open^{x", 1, 0}}},
	} {
		if diff := cmp.Diff(c.want, splitScripts(c.line), cmp.AllowUnexported(part{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.line, diff)
		}
	}
}

// TestText_WrapsWithinItsWidth checks that lines are no wider than requested, and that only spaces
// are lost.
func TestText_WrapsWithinItsWidth(t *testing.T) {
	f := face{8}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zA-Z0-9 /_-]{0,60}`).Draw(t, "text")
		width := vg.Length(rapid.Float64Range(12, 200).Draw(t, "width"))
		got := f.wrapText(text, width)
		if f.textWidth(got) > width && strings.TrimSpace(text) == text {
			t.Fatalf("%q is %v wide, more than %v", got, f.textWidth(got), width)
		}
		bare := strings.NewReplacer(" ", "", "\n", "")
		if bare.Replace(got) != bare.Replace(text) {
			t.Fatalf("%q becomes %q", text, got)
		}
		if short := f.cutMiddle(text, width); f.textWidth(short) > width && short != "…" {
			t.Fatalf("%q is cut to %q", text, short)
		}
	})
	for text, want := range map[string]string{"one two": "one\ntwo", "leaf-spine": "leaf-\nspine", "unbreakable": "unbrea\nkable"} {
		if got := f.wrapText(text, 26); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestTicks_AreSeparateAndAtLeastTwo checks that labels of any range are separate and within the
// axis, that there are at least two if the axis is long enough, and that they match their values.
func TestTicks_AreSeparateAndAtLeastTwo(t *testing.T) {
	f := face{7}
	rapid.Check(t, func(t *rapid.T) {
		r := ruler{axis: &Axis{Unit: rapid.SampledFrom([]Unit{Number, Seconds, Bytes, BitsPerSecond, Ratio, "packets"}).Draw(t, "unit")}}
		length := vg.Length(rapid.Float64Range(60, 500).Draw(t, "length"))
		low := math.Pow(10, rapid.Float64Range(-9, 12).Draw(t, "low"))
		high := low * math.Pow(10, rapid.Float64Range(0.01, 10).Draw(t, "decades"))
		if r.log = rapid.Bool().Draw(t, "log"); r.log {
			r.setLog(extent{low, high})
		} else {
			r.setLinear(extent{low, high}, 0.04, 0.04)
		}
		upright := rapid.Bool().Draw(t, "upright")
		labels, end := 0, vg.Length(math.Inf(-1))
		for _, k := range r.ticksFor(length, f, upright) {
			if k.at < -1e-6 || k.at > 1+1e-6 {
				t.Fatalf("a mark at %v", k.at)
			}
			if k.label == "" {
				continue
			}
			labels++
			half := f.textWidth(k.label) / 2
			if upright {
				half = f.sizeInPoints() * capHeight / 2
			}
			if middle := vg.Length(k.at) * length; middle-half < end {
				t.Fatalf("%q stands on another", k.label)
			} else {
				end = middle + half
			}
			if f.textWidth(k.label) > 45 {
				t.Fatalf("a label %q", k.label)
			}
		}
		if labels < 2 && length > 100 {
			t.Fatalf("%d labels from %v to %v", labels, r.low, r.high)
		}
	})
}

func TestLabels_ShowUnitsOnce(t *testing.T) {
	for _, c := range []struct {
		r      ruler
		length vg.Length
		label  string
		ticks  string
	}{
		{ruler{axis: &Axis{Label: "size", Unit: Bytes}, log: true, low: 1e3, high: 1e6}, 200, "size", "1 KB,10 KB,100 KB,1 MB"},
		{ruler{axis: &Axis{Label: "size", Unit: Bytes}, log: true, low: 1, high: 1e12}, 120, "size", "1 B,1 KB,1 MB,1 GB,1 TB"},
		{ruler{axis: &Axis{Label: "delay", Unit: Seconds}, log: true, low: 1e-6, high: 1e-3}, 200, "delay", "1 µs,10 µs,100 µs,1 ms"},
		{ruler{axis: &Axis{Label: "delay", Unit: Seconds}, high: 25e-6}, 200, "delay (µs)", "0,5,10,15,20,25"},
		{ruler{axis: &Axis{Label: "load", Unit: Ratio}, high: 1}, 200, "load (%)", "0,20,40,60,80,100"},
		{ruler{axis: &Axis{Label: "flows"}, high: 4e6}, 200, "flows (10^{6})", "0,1,2,3,4"},
		{ruler{axis: &Axis{Label: "drops", Unit: "packets"}, low: -1e-4, high: 1e-4}, 200, "drops (10^{−6} packets)", "−100,−50,0,50,100"},
		{ruler{axis: &Axis{Label: "loss"}, low: 0.0407, high: 0.0499}, 100, "loss", "0.042,0.048"},
		{ruler{axis: &Axis{Unit: "packets"}, high: 10}, 200, "packets", "0,2,4,6,8,10"},
		{ruler{axis: &Axis{Label: "n"}, log: true, low: 1e-4, high: 1}, 200, "n", "10^{−4},10^{−3},10^{−2},10^{−1},10^{0}"},
		{ruler{axis: &Axis{Label: "size", Unit: Bytes}, quantiles: Values{300, 1e3, 120e3, 5e6}, high: 4}, 200, "size (bytes)", "300,1K,120K,5M"},
		{ruler{axis: &Axis{Label: "load"}, names: []string{"a"}, high: 1}, 200, "load", ""},
	} {
		var ticks []string
		if c.r.names == nil {
			for _, k := range c.r.ticksFor(c.length, face{7}, false) {
				if k.label != "" {
					ticks = append(ticks, k.label)
				}
			}
		}
		if got := strings.Join(ticks, ","); got != c.ticks || c.r.fullLabel() != c.label {
			t.Errorf("%q with %s, want %q with %s", c.r.fullLabel(), got, c.label, c.ticks)
		}
	}
}
