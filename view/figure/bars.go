package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawBars draws bars from 0, or from the end of a logarithmic axis; reference values are
// markers on the bars with the same name.
func (d *data) drawBars(c draw.Canvas) {
	places, n := map[string]int{}, 0 // positions of bars in their group
	for i := range d.lines {
		if l := &d.lines[i]; !l.look.reference {
			places[l.name] = n
			n++
		}
	}
	wide := 0.8 / float64(max(n, 1))
	if n == 1 {
		wide = 0.5
	}
	zero := 0.0
	if !d.y.log {
		zero = min(max(d.y.placeOf(0), 0), 1)
	}
	for _, reference := range []bool{false, true} {
		for i := range d.lines {
			l := &d.lines[i]
			if l.look.reference != reference {
				continue
			}
			place, found := places[l.name]
			for k, v := range l.y {
				if math.IsNaN(v) {
					continue
				}
				x := l.x[k]
				if found {
					x += wide * (float64(place) - float64(n-1)/2)
				}
				if reference {
					if at, ok := d.placePoint(&c, x, v); ok && c.Contains(at) {
						l.look.overBar(c, at)
					}
				} else {
					gap := vg.Length(0.3) // between adjacent bars
					end := min(max(d.y.placeOf(v), 0), 1)
					r := vg.Rectangle{
						Min: vg.Point{X: c.X(d.x.placeOf(x-wide/2)) + gap, Y: c.Y(min(zero, end))},
						Max: vg.Point{X: c.X(d.x.placeOf(x+wide/2)) - gap, Y: c.Y(max(zero, end))},
					}
					l.look.fillBar(c, r)
				}
				if l.low != nil {
					d.drawInterval(c, x, l.low[k], l.high[k], draw.LineStyle{Color: color.Black})
				}
			}
		}
	}
	if zero > 0 && zero < 1 {
		c.StrokeLine2(axisStyle, c.Min.X, c.Y(zero), c.Max.X, c.Y(zero))
	}
}

// overBar draws a marker that is visible on a bar of the same colour.
func (l *look) overBar(c draw.Canvas, at vg.Point) {
	var disc vg.Path
	disc.Move(vg.Point{X: at.X + markerRadius*1.8, Y: at.Y})
	disc.Arc(at, markerRadius*1.8, 0, 2*math.Pi)
	disc.Close()
	c.SetColor(color.White)
	c.Fill(disc)
	black := *l
	black.colour = color.NRGBA{A: 255}
	black.marker, black.strokes = nil, false
	black.drawMarker(c, at)
}
