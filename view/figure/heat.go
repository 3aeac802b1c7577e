package figure

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/sim/units"
)

// heatColours are samples of viridis (Smith and van der Walt 2015), whose brightness
// increases throughout, so that it is readable in grey and by colour-blind readers.
var heatColours = []color.NRGBA{
	{68, 1, 84, 255}, {71, 45, 123, 255}, {59, 82, 139, 255}, {44, 114, 142, 255}, {33, 145, 140, 255},
	{40, 174, 128, 255}, {94, 201, 98, 255}, {173, 220, 48, 255}, {253, 231, 37, 255},
}

// heatColour returns the colour for a fraction of the range, from 0 to 1.
func heatColour(part float64) color.NRGBA {
	at := min(max(part, 0), 1) * float64(len(heatColours)-1)
	i := min(int(at), len(heatColours)-2)
	a, b, t := heatColours[i], heatColours[i+1], at-float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a)*(1-t) + float64(b)*t)) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// missing is the colour of cells without a value.
var missing = color.NRGBA{235, 235, 235, 255}

// drawHeat draws a heat map, its axes and its colour bar.
func (p *panel) drawHeat(c draw.Canvas, l *plan) {
	rows, columns := len(p.Matrix), len(p.data.x.names)
	// Viewers leave light seams between adjacent areas, so each area extends under the
	// next.
	const under = 0.3
	per := 1.0
	if !p.data.z.log {
		per, _ = p.data.z.linearUnit()
	}
	texts := p.cellTexts(per)
	written := texts != nil && float64(l.plot.Y)/float64(rows) > l.number.size*1.2
	for _, row := range texts {
		for _, t := range row {
			written = written && l.number.textWidth(t)+2 < l.plot.X/vg.Length(columns)
		}
	}
	for i := rows - 1; i >= 0; i-- {
		for k := columns - 1; k >= 0; k-- {
			r := vg.Rectangle{
				Min: vg.Point{X: c.X(float64(k) / float64(columns)), Y: c.Y(float64(i) / float64(rows))},
				Max: vg.Point{X: c.X(float64(k+1) / float64(columns)), Y: c.Y(float64(i+1) / float64(rows))},
			}
			colour := missing
			if v := p.Matrix[i][k]; !math.IsNaN(v) {
				colour = heatColour(p.data.z.placeOf(v))
			}
			whole := r
			whole.Max.X, whole.Max.Y = min(r.Max.X+under, c.Max.X), min(r.Max.Y+under, c.Max.Y)
			c.SetColor(colour)
			c.Fill(whole.Path())
			if colour == missing {
				stripes{math.Pi / 4, 3}.drawStripes(c, r)
			}
		}
	}
	for i, row := range texts {
		for k, t := range row {
			if v := p.Matrix[i][k]; written && !math.IsNaN(v) {
				ink := color.Color(color.White)
				if brightnessOf(heatColour(p.data.z.placeOf(v))) > 0.55 {
					ink = color.Black
				}
				at := vg.Point{X: c.X((float64(k) + 0.5) / float64(columns)), Y: c.Y((float64(i) + 0.5) / float64(rows))}
				l.number.drawText(c, t, at, place{x: 0.5, y: 0.5}, ink)
			}
		}
	}
	p.x.drawX(c, l)
	p.y.drawY(c, l)
	c.SetLineStyle(axisStyle)
	c.Stroke(c.Rectangle.Path())
	p.drawBar(c, l)
}

// cellTexts returns the values in the unit of the colour bar, or nil if the bar has
// several units.
func (p *panel) cellTexts(per float64) (all [][]string) {
	if p.data.z.log && multiples[p.data.z.axis.Unit] != nil {
		return nil
	}
	largest := nothing
	for _, row := range p.Matrix {
		largest.addValues(row, false)
	}
	// All have as many decimals as the largest needs for three digits, or fewer.
	decimals := max(0, 2-int(math.Floor(math.Log10(max(math.Abs(largest.low), math.Abs(largest.high))/per))))
	format := func(v float64) string {
		return strings.Replace(strconv.FormatFloat(v/per, 'f', decimals, 64), "-", "−", 1)
	}
	needless := func() bool {
		for _, row := range p.Matrix {
			for _, v := range row {
				if !math.IsNaN(v) && !strings.HasSuffix(format(v), "0") {
					return false
				}
			}
		}
		return true
	}
	for decimals > 0 && needless() {
		decimals--
	}
	for _, row := range p.Matrix {
		var texts []string
		for _, v := range row {
			if p.data.z.log {
				texts = append(texts, units.FormatDigits(v, 2))
			} else {
				texts = append(texts, format(v))
			}
		}
		all = append(all, texts)
	}
	return all
}

// brightnessOf returns the brightness of a colour, from 0 to 1 (Rec. 601).
func brightnessOf(c color.NRGBA) float64 {
	return (0.299*float64(c.R) + 0.587*float64(c.G) + 0.114*float64(c.B)) / 255
}

// drawBar draws the colour bar right of the data.
func (p *panel) drawBar(c draw.Canvas, l *plan) {
	const steps = 64
	bar := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: c.Max.X + barGap, Y: c.Min.Y}, Max: vg.Point{X: c.Max.X + barGap + barSize, Y: c.Max.Y},
	}}
	for i := range steps {
		// Each step is drawn over the previous one, up to the top.
		c.SetColor(heatColour(float64(i) / (steps - 1)))
		c.Fill(vg.Rectangle{Min: vg.Point{X: bar.Min.X, Y: bar.Y(float64(i) / steps)}, Max: bar.Max}.Path())
	}
	c.SetLineStyle(axisStyle)
	c.Stroke(bar.Rectangle.Path())
	p.z.drawZ(bar, l)
}
