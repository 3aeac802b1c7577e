package figure

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure/axis"
)

// digits is the number of significant digits in labels.
const digits = 3

// multiples lists the units in which values of a unit are shown.
var multiples = map[Unit][]axis.Unit{Seconds: axis.Seconds, Bytes: axis.Sizes, BitsPerSecond: axis.Rates, Ratio: axis.Percent}

// ruler is an axis with its range. If the axis has names or quantiles, values are their
// numbers, from 1.
type ruler struct {
	axis      *Axis
	log       bool
	names     []string // nil if it has none
	quantiles Values   // nil if it has none
	low, high float64
}

// placeOf returns the position of a value on the axis, from 0 to 1 if it is within the range.
func (r *ruler) placeOf(v float64) float64 {
	if r.log {
		return math.Log(v/r.low) / math.Log(r.high/r.low)
	}
	return (v - r.low) / (r.high - r.low)
}

// tick is a mark on an axis.
type tick struct {
	at    float64 // 0 to 1
	label string
	minor bool // short, with neither label nor grid
}

// linearUnit returns the unit of a linear axis: the divisor of its values, and the name to
// append to its label.
func (r *ruler) linearUnit() (per float64, name string) {
	largest := max(math.Abs(r.low), math.Abs(r.high))
	u := axis.Unit{Per: 1, Name: string(r.axis.Unit)}
	if all, ok := multiples[r.axis.Unit]; ok {
		u = axis.Fit(all, largest)
	}
	if largest /= u.Per; largest < 1e5 && largest >= 0.01 || largest == 0 {
		return u.Per, u.Name
	}
	exponent := 3 * math.Floor(math.Log10(largest)/3)
	return u.Per * math.Pow(10, exponent), strings.TrimSpace(fmt.Sprintf("10^{%s} %s", formatMinus(int(exponent)), u.Name))
}

func formatMinus(n int) string { return strings.Replace(fmt.Sprint(n), "-", "−", 1) }

// fullLabel returns the axis's label, with the unit if the numbers do not show it.
func (r *ruler) fullLabel() string {
	name := ""
	switch {
	case r.names != nil:
	case r.quantiles != nil:
		switch {
		case r.axis.Unit == Bytes:
			name = "bytes"
		case multiples[r.axis.Unit] == nil:
			name = string(r.axis.Unit)
		}
	case r.log:
		if multiples[r.axis.Unit] == nil {
			name = string(r.axis.Unit)
		}
	default:
		_, name = r.linearUnit()
	}
	if name == "" || r.axis.Label == "" {
		return r.axis.Label + name
	}
	return r.axis.Label + " (" + name + ")"
}

// formatNumber formats a value with a suitable unit, or as a power of ten.
func (r *ruler) formatNumber(v float64, power bool) string {
	if all, ok := multiples[r.axis.Unit]; ok {
		u := axis.Of(all, v)
		space := " "
		if u.Name == "%" {
			space = ""
		}
		v /= u.Per
		few := ruler{axis: &Axis{}}
		return few.formatNumber(v, v > 0.99e5 || v < 0.99e-3) + space + u.Name
	}
	if power {
		exponent := math.Floor(math.Log10(v) + 1e-9)
		raised := "10^{" + formatMinus(int(exponent)) + "}"
		if times := units.FormatDigits(v/math.Pow(10, exponent), digits); times != "1" {
			return times + "·" + raised
		}
		return raised
	}
	return units.FormatDigits(v, digits)
}

// ticksFor returns the marks of an axis of this length. The labels of an upright axis are
// above each other, others are side by side; they never touch. Names have no ticks here:
// see slots.
func (r *ruler) ticksFor(length vg.Length, f face, upright bool) []tick {
	space := vg.Length(0.7) // between labels, relative to the font size
	switch {
	case upright && r.log:
		space = 0.6 // superscripts are higher
	case r.quantiles != nil || upright:
		space = 0.4
	}
	fits := func(all []tick) bool {
		end := vg.Length(math.Inf(-1))
		for _, t := range all {
			if t.label == "" {
				continue
			}
			middle, half := vg.Length(t.at)*length, f.textWidth(t.label)/2
			if upright {
				half = f.sizeInPoints() * capHeight / 2
			}
			if middle-half < end+space*f.sizeInPoints() {
				return false
			}
			end = middle + half
		}
		return true
	}
	switch {
	case r.quantiles != nil:
		return r.shareTicks(fits)
	case r.log:
		return r.logTicks(fits)
	}
	per, _ := r.linearUnit()
	many := 4 * f.sizeInPoints()
	if upright {
		many = 2 * f.sizeInPoints()
	}
	var all []tick
	for n := min(max(int(length/many), 5), 8); n > 0; n-- {
		denser := all
		all = nil
		for _, t := range axis.Even(r.low/per, r.high/per, n) {
			all = append(all, tick{at: r.placeOf(t.Value * per), label: strings.Replace(t.Label, "-", "−", 1)})
		}
		if len(all) < 2 && len(denser) > 2 {
			// One label says nothing about the scale: label the ends of the denser marks.
			for i := range denser[1 : len(denser)-1] {
				denser[1+i].label = ""
			}
			if fits(denser) {
				return denser
			}
		}
		if fits(all) {
			break
		}
	}
	return all
}

// logTicks labels as many decades as fit: 1, 2 and 5 times powers of ten if the axis is
// short, otherwise each power, or some of them.
func (r *ruler) logTicks(fits func([]tick) bool) (all []tick) {
	decades := axis.Decades(r.low, r.high)
	span := math.Log10(r.high / r.low)
	power := multiples[r.axis.Unit] == nil && (r.low < 0.99e-3 || r.high > 1.01e4)
	with := func(labelled func(axis.Decade) bool) (labels int) {
		all = nil
		for _, d := range decades {
			t := tick{at: r.placeOf(d.Value()), minor: true}
			if labelled(d) {
				t.label, t.minor = r.formatNumber(d.Value(), power), false
				labels++
			}
			if span <= 7 || d.Times == 1 {
				all = append(all, t)
			}
		}
		return labels
	}
	if span < 3 && with(func(d axis.Decade) bool { return d.Times == 1 || d.Times == 2 || d.Times == 5 }) > 1 && fits(all) {
		return all
	}
	for every := 1; every < len(decades); every++ {
		// Labelling every second power is fine for plain numbers, but not for KB and MB.
		if every%3 != 0 && every > 1 && multiples[r.axis.Unit] != nil {
			continue
		}
		if with(func(d axis.Decade) bool { return d.Times == 1 && d.Exponent%every == 0 }) < 2 {
			break
		}
		if fits(all) {
			return all
		}
	}
	// Fewer than two powers, or no room: label the ends of the axis.
	first, last := decades[0], decades[len(decades)-1]
	with(func(d axis.Decade) bool { return d == first || d == last })
	return all
}

// shareTicks returns ticks at as many quantiles as fit, always including the last.
func (r *ruler) shareTicks(fits func([]tick) bool) (all []tick) {
	n := len(r.quantiles)
	for every := 1; every <= n; every++ {
		if n%every != 0 && every < n {
			continue
		}
		all = nil
		for i := every; i <= n; i += every {
			label := r.formatNumber(r.quantiles[i-1], false)
			if r.axis.Unit == Bytes {
				// The axis's label gives the unit.
				label = strings.TrimSuffix(strings.Replace(label, " ", "", 1), "B")
			}
			all = append(all, tick{at: r.placeOf(float64(i)), label: label})
		}
		if fits(all) {
			break
		}
	}
	return all
}
