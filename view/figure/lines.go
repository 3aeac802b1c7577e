package figure

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// path is a series of connected points.
type path []vg.Point

// placePoint returns the position of a point; ok is false for a gap.
func (d *data) placePoint(c *draw.Canvas, x, y float64) (p vg.Point, ok bool) {
	px, py := d.x.placeOf(x), d.y.placeOf(y)
	if d.x.log && x <= 0 {
		// In a distribution: left of the axis.
		px = 0
	}
	p = vg.Point{X: c.X(px), Y: c.Y(py)}
	return p, !math.IsNaN(px) && !math.IsNaN(py) && !math.IsInf(py, 0)
}

// splitIntoPaths splits a line into paths at its gaps. A step extends to the next point, or from the
// previous one, even if that is a gap.
func (d *data) splitIntoPaths(c *draw.Canvas, xs, ys Values) (all []path) {
	var current path
	from := math.NaN() // where the step before a point begins
	for i := range xs {
		p, ok := d.placePoint(c, xs[i], ys[i])
		switch {
		case ok && current != nil && d.Steps == After:
			current = append(current, vg.Point{X: p.X, Y: current[len(current)-1].Y}, p)
		case ok && d.Steps == Before && !math.IsNaN(from):
			current = append(current, vg.Point{X: vg.Length(from), Y: p.Y}, p)
		case ok && d.Steps == Before && len(xs) > 1:
			// The start of the first step is unknown.
		case ok:
			current = append(current, p)
		case current != nil:
			if d.Steps == After && !math.IsNaN(xs[i]) {
				current = append(current, vg.Point{X: p.X, Y: current[len(current)-1].Y})
			}
			all, current = append(all, current), nil
		}
		from = float64(p.X)
	}
	if current != nil {
		all = append(all, current)
	}
	return all
}

// thinPoints keeps only the points that can be told apart, of points in order of x: the first,
// lowest, highest and last within each pixel's width.
func (p path) thinPoints() path {
	const pixel = vg.Inch / dpi
	if len(p) < 100 {
		return p
	}
	var out path
	for from := 0; from < len(p); {
		low, high, to := from, from, from
		for to < len(p) && p[to].X < p[from].X+pixel {
			if p[to].Y < p[low].Y {
				low = to
			}
			if p[to].Y > p[high].Y {
				high = to
			}
			to++
		}
		last := -1
		for _, i := range []int{from, min(low, high), max(low, high), to - 1} {
			if i > last {
				out, last = append(out, p[i]), i
			}
		}
		from = to
	}
	return out
}

// drawLines draws series of all kinds except bars: bands first, then lines in order, with
// references on top.
func (d *data) drawLines(c draw.Canvas) {
	for i := range d.lines {
		if l := &d.lines[i]; d.Kind == Time && l.low != nil {
			d.drawBand(c, l)
		}
	}
	for _, reference := range []bool{false, true} {
		for i := range d.lines {
			if d.lines[i].look.reference == reference {
				d.drawLine(c, i)
			}
		}
	}
}

// drawBand shades the interval of a series.
func (d *data) drawBand(c draw.Canvas, l *line) {
	// A gap in one of them is a gap in both.
	low, high := make(Values, len(l.x)), make(Values, len(l.x))
	for i := range l.x {
		low[i], high[i] = l.low[i], l.high[i]
		if d.y.log {
			// Clip at the bottom of the axis.
			low[i] = max(low[i], d.y.low)
		}
		if math.IsNaN(low[i] + high[i]) {
			low[i], high[i] = math.NaN(), math.NaN()
		}
	}
	lows, highs := d.splitIntoPaths(&c, l.x, low), d.splitIntoPaths(&c, l.x, high)
	for k := range min(len(lows), len(highs)) {
		if len(highs[k]) == 1 {
			for _, piece := range c.ClipLinesXY(path{lows[k][0], highs[k][0]}) {
				c.StrokeLines(draw.LineStyle{Color: l.look.colour, Width: 0.7}, piece)
			}
			continue
		}
		area := highs[k].thinPoints()
		below := lows[k].thinPoints()
		for i := len(below) - 1; i >= 0; i-- {
			area = append(area, below[i])
		}
		c.FillPolygon(l.look.shadeColour(), c.ClipPolygonXY(area))
	}
}

// drawLine draws the i-th series: error bars, lines, markers.
func (d *data) drawLine(c draw.Canvas, i int) {
	l := &d.lines[i]
	ordered := d.Kind == Time || d.Kind == CDF || d.Kind == CCDF
	xs := l.x
	if d.Kind == Points && d.x.names != nil {
		xs = d.dodgedPlaces(i)
	}
	if shift := d.shiftOfLine(&c, i); shift != 0 {
		// The whole series: line, markers and intervals.
		c.Min.X, c.Max.X = c.Min.X+shift, c.Max.X+shift
	}
	if l.low != nil && !ordered {
		for k := range xs {
			d.drawInterval(c, xs[k], l.low[k], l.high[k], l.look.lineStyle())
		}
	}
	all := d.splitIntoPaths(&c, xs, l.y)
	if d.Kind == Points {
		for _, p := range all {
			l.look.markAll(c, p)
		}
		return
	}
	for _, p := range all {
		if ordered {
			p = p.thinPoints()
		}
		style := l.look.lineStyle()
		if len(p) > manyPoints {
			style.Width *= 0.75
		}
		for _, piece := range c.ClipLinesXY(p) {
			c.StrokeLines(style, piece)
		}
		// Markers at many points would merge, but every reference value must be visible.
		dense := p[len(p)-1].X-p[0].X < 4*vg.Length(len(p))
		if len(p) > 1 && ordered && l.look.alone && !l.look.reference {
			continue
		}
		if len(p) > 1 && (dense || ordered && !(l.look.reference && d.Steps == Straight)) {
			p.markSome(c, &l.look, i, d.Kind == Time)
		} else {
			l.look.markAll(c, p)
		}
	}
}

// manyPoints is the number of points beyond which a line is drawn thinner.
const manyPoints = 800

// dodgedPlaces returns the positions of points over names, with several series side by side.
func (d *data) dodgedPlaces(i int) (xs Values) {
	apart := min(0.7/float64(len(d.lines)), 0.16)
	for _, x := range d.lines[i].x {
		xs = append(xs, x+apart*(float64(i)-float64(len(d.lines)-1)/2))
	}
	return xs
}

// shiftOfLine returns how far a series of kind Lines is moved to the right, so that intervals of
// several series at one x are beside each other. Series with one name are moved alike.
func (d *data) shiftOfLine(c *draw.Canvas, i int) vg.Length {
	if d.Kind != Lines {
		return 0
	}
	var names []string
	nearest := math.Inf(1) // distance of two values of x, as a share of the axis
	for _, l := range d.lines {
		wide := false
		for k := range l.low {
			wide = wide || l.low[k] < l.high[k]
		}
		if wide && !slices.Contains(names, l.name) {
			names = append(names, l.name)
		}
		at := make([]float64, len(l.x))
		for k, x := range l.x {
			at[k] = d.x.placeOf(x)
		}
		slices.Sort(at)
		for k := 1; k < len(at); k++ {
			if apart := at[k] - at[k-1]; apart > 0 {
				nearest = min(nearest, apart)
			}
		}
	}
	place := slices.Index(names, d.lines[i].name)
	if len(names) < 2 || place < 0 {
		return 0
	}
	apart := min(1.6*capHalf, 0.5*vg.Length(nearest)*(c.Max.X-c.Min.X)/vg.Length(len(names)))
	return apart * (vg.Length(place) - vg.Length(len(names)-1)/2)
}

// capHalf is half the width of the end of an error bar.
const capHalf = 1.7

// drawInterval draws an error bar. An end beyond the axis is an arrow.
func (d *data) drawInterval(c draw.Canvas, x, low, high float64, style draw.LineStyle) {
	style.Width, style.Dashes = 0.7, nil
	if d.y.log && low <= 0 {
		low = d.y.low / 10 // extends beyond the axis
	}
	a, aok := d.placePoint(&c, x, low)
	b, bok := d.placePoint(&c, x, high)
	if !aok || !bok || !c.ContainsX(a.X) || a == b || b.Y < c.Min.Y || a.Y > c.Max.Y {
		return
	}
	for _, piece := range c.ClipLinesXY([]vg.Point{a, b}) {
		c.StrokeLines(style, piece)
	}
	for _, end := range []vg.Point{a, b} {
		edge, back := end, vg.Length(0) // of an arrow
		switch {
		case end.Y < c.Min.Y-hairline:
			edge.Y, back = c.Min.Y, 2*capHalf
		case end.Y > c.Max.Y+hairline:
			edge.Y, back = c.Max.Y, -2*capHalf
		}
		if back != 0 {
			c.StrokeLines(style, []vg.Point{{X: edge.X - capHalf, Y: edge.Y + back}, edge, {X: edge.X + capHalf, Y: edge.Y + back}})
			continue
		}
		c.StrokeLine2(style, end.X-capHalf, end.Y, end.X+capHalf, end.Y)
	}
}

// hairline is a distance that cannot be seen.
const hairline = 0.05

// markAll draws markers at all points that can be told apart.
func (l *look) markAll(c draw.Canvas, p path) {
	const apart = 0.2
	type cell struct{ x, y int }
	seen := map[cell]bool{}
	for _, at := range p {
		here := cell{int(at.X / apart), int(at.Y / apart)}
		if c.Contains(at) && !seen[here] {
			seen[here] = true
			l.drawMarker(c, at)
		}
	}
}

// markSome draws markers along a line, at distances that suffice to tell lines apart, and
// at different positions for each line i. Over time only x counts; otherwise there would be
// too many where the line changes quickly.
func (p path) markSome(c draw.Canvas, l *look, i int, overTime bool) {
	const apart = 46
	distance := func(a, b vg.Point) vg.Length {
		if overTime {
			return b.X - a.X
		}
		return vg.Length(math.Hypot(float64(a.X-b.X), float64(a.Y-b.Y)))
	}
	pieces, total := c.ClipLinesXY(p), vg.Length(0)
	for _, piece := range pieces {
		for k := 1; k < len(piece); k++ {
			total += distance(piece[k-1], piece[k])
		}
	}
	_, part := math.Modf(float64(i) * 0.382)
	next := vg.Length(0.2+0.6*part) * min(apart, total)
	at := vg.Length(0)
	for _, piece := range pieces {
		for k := 1; k < len(piece); k++ {
			step := distance(piece[k-1], piece[k])
			for step > 0 && next <= at+step {
				l.drawMarker(c, piece[k-1].Add(piece[k].Sub(piece[k-1]).Scale((next-at)/step)))
				next += apart
			}
			at += step
		}
	}
}
