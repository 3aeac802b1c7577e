package figure

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// maxNames is how many marks can have their names written beside them and remain readable.
const maxNames = 12

var (
	plainMark = color.NRGBA{110, 110, 110, 255}
	badMark   = color.NRGBA{192, 57, 43, 255}
)

// drawMarks draws the panel's marks, each with its name left of it unless the name would
// overlap another.
func (p *panel) drawMarks(c draw.Canvas, l *plan) {
	marks := slices.Clone(p.Marks)
	slices.SortStableFunc(marks, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
	end := vg.Length(math.Inf(-1)) // of the name before
	for _, m := range marks {
		colour := plainMark
		if m.Bad {
			colour = badMark
		}
		x := c.X(p.data.x.placeOf(m.X))
		if !c.ContainsX(x) {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: colour, Width: 0.7, Dashes: []vg.Length{2, 2}}, x, c.Min.Y, x, c.Max.Y)
		// A name is only as high as the data area.
		high := l.number.sizeInPoints() * 1.05
		if len(marks) <= maxNames && x-high >= max(end, c.Min.X) {
			l.number.drawText(c, l.number.cutMiddle(m.Name, (c.Max.Y-c.Min.Y)*0.9), vg.Point{X: x - 1, Y: c.Max.Y - 3}, place{x: 1, rotation: math.Pi / 2}, colour)
			end = x
		}
	}
}
