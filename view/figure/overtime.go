package figure

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/plot/vg"
)

// overDashes are the dashes of lines over time, by the number of lines that they cover.
var overDashes = [][]vg.Length{nil, {5, 3}, {2.5, 3.5}, {1, 3}}

// setTimeLooks gives the lines over time their widths and dashes. Dashes would hide how a
// line varies. So a line is dashed only where it would cover another, and later lines, which
// are above earlier ones, are thinner.
func setTimeLooks(all []*data) {
	var names []string
	covered := map[string]int{}
	for _, d := range all {
		if d.Kind != Time {
			return
		}
		for i := range d.lines {
			l := &d.lines[i]
			if l.look.reference || d.Series[i].Style.Dash != 0 {
				continue
			}
			if !slices.Contains(names, l.name) {
				names = append(names, l.name)
			}
			covered[l.name] = max(covered[l.name], d.countCovered(i))
		}
	}
	for _, d := range all {
		for i := range d.lines {
			l := &d.lines[i]
			k := slices.Index(names, l.name)
			if k < 0 || l.look.reference {
				continue
			}
			l.look.dashes = overDashes[min(covered[l.name], len(overDashes)-1)]
			if len(names) > 1 {
				l.look.width = vg.Length(1.6 - 0.8*float64(k)/float64(max(len(names)-1, 3)))
			}
		}
	}
}

// countCovered returns the number of earlier lines that a line coincides with over a third of
// its length or more.
func (d *data) countCovered(i int) (n int) {
	const (
		samples = 150
		apart   = 0.01 // of the height: about the width of a line
	)
	for k := range d.lines[:i] {
		length, same := 0, 0
		for s := range samples {
			x := d.x.low + (d.x.high-d.x.low)*(float64(s)+0.5)/samples
			a, b := d.y.placeOf(d.valueAt(&d.lines[i], x)), d.y.placeOf(d.valueAt(&d.lines[k], x))
			// On the axis it hides nothing. Unknown values coincide with none.
			if a > 0.01 {
				length++
				if math.Abs(a-b) < apart {
					same++
				}
			}
		}
		if same > 0 && 3*same >= length {
			n++
		}
	}
	return n
}

// valueAt returns the y of a line over time at x, NaN where it has none.
func (d *data) valueAt(l *line, x float64) float64 {
	i := sort.SearchFloat64s(l.x, x)
	switch {
	case i == len(l.x):
		return math.NaN()
	case l.x[i] == x || d.Steps == Before && i > 0:
		return l.y[i]
	case i == 0:
		return math.NaN()
	case d.Steps == After:
		return l.y[i-1]
	}
	return l.y[i-1] + (l.y[i]-l.y[i-1])*(x-l.x[i-1])/(l.x[i]-l.x[i-1])
}
