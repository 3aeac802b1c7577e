// Package chart shows the output of runs, series of queues and flows over time
// and records of flows and of transfers, as pictures and as figures.
package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"sort"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure/axis"
	"github.com/weftlab/weft/view/figure/canvas"
)

// dpi is the resolution of PNG and SVG.
const dpi = 96

// MaxLines is the maximum number of lines in a picture: the number of colours
// that all readers can tell apart.
const MaxLines = len(canvas.Colours)

// Line is one line of a picture. Its points are in the units of the axes.
type Line struct {
	Name   string
	Points plotter.XYs
	Style  *Style // nil means its own colour
}

// Style is the style of a line that belongs to a group: the indices of its
// colour and its dashes.
type Style struct{ Colour, Dashes int }

// Axis is one axis of a picture.
type Axis struct {
	Label    string
	Min, Max float64
	Log      bool     // then Min is above 0
	Names    []string // instead of numbers: the first at 1, the next at 2
}

// Picture is lines over two axes.
type Picture struct {
	Title         string
	X, Y          Axis
	Steps         plotter.StepKind
	Dots          bool   // at the points of lines
	Marks         []Mark // along X
	Lines         []Line // at most MaxLines
	Width, Height int    // in pixels
}

// Write writes the picture in a format: "png", "svg" or "pdf".
func (p *Picture) Write(w io.Writer, format string) error {
	width, height := vg.Length(p.Width)*vg.Inch/dpi, vg.Length(p.Height)*vg.Inch/dpi
	c, err := canvas.New(format, width, height, dpi)
	if err != nil {
		return err
	}
	if err := p.draw(draw.NewCanvas(c, width, height)); err != nil {
		return err
	}
	_, err = c.WriteTo(w)
	return err
}

func (p *Picture) draw(c draw.Canvas) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	g := plot.New()
	g.Title.TextStyle.Font = canvas.Sans(11)
	for _, a := range []*plot.Axis{&g.X, &g.Y} {
		a.Label.TextStyle.Font = canvas.Sans(10)
		a.Tick.Label.Font = canvas.Sans(9)
		a.Padding = 0
	}
	g.Title.Text, g.Title.Padding = p.Title, 4
	p.X.set(&g.X)
	p.Y.set(&g.Y)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{215}, color.Gray{215}
	g.Add(grid)
	var styles []draw.LineStyle
	for i, l := range p.Lines {
		line, err := plotter.NewLine(p.within(l.Points))
		if err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		line.StepStyle = p.Steps
		line.Color = canvas.Colours[i%MaxLines]
		// Later lines are thinner, and dashed where they coincide with others,
		// so that all are visible.
		line.Width = vg.Points(2 - 1.2*float64(i)/float64(max(len(p.Lines)-1, 3)))
		if len(p.Lines) == 1 {
			line.Width = vg.Points(1)
		}
		line.Dashes = dashes[min(p.below(i), len(dashes)-1)]
		if s := l.Style; s != nil {
			line.Color, line.Width, line.Dashes = canvas.Colours[s.Colour], vg.Points(1.5), dashes[s.Dashes]
		}
		g.Add(line)
		if p.Dots {
			g.Add(&plotter.Scatter{XYs: line.XYs, GlyphStyle: draw.GlyphStyle{Color: line.Color, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}})
		}
		styles = append(styles, line.LineStyle)
	}
	if len(p.Marks) > 0 {
		g.Add(marks(p.Marks))
	}
	g.X.Min, g.X.Max, g.Y.Min, g.Y.Max = p.X.Min, p.X.Max, p.Y.Min, p.Y.Max
	inner := draw.Crop(c, 6, -14, 5, -5)
	if len(p.Lines) > 1 {
		inner = p.legend(inner, styles)
	}
	g.Draw(inner)
	return nil
}

// dashes are indexed by the number of lines that a line covers, or by
// Style.Dashes.
var dashes = [][]vg.Length{nil, {8, 5}, {4, 6}, {2, 6}}

// below returns the number of earlier lines that coincide with a line over a
// third of the picture or more.
func (p *Picture) below(i int) (n int) {
	const grid = 150
	for _, other := range p.Lines[:i] {
		same := 0
		for k := range grid {
			x := p.X.at((float64(k) + 0.5) / grid)
			a, aok := p.value(p.Lines[i].Points, x)
			b, bok := p.value(other.Points, x)
			// This is about the width of a line. A value of 0 lies on the axis,
			// and hides nothing.
			if aok && bok && p.Y.part(a) > 0.01 && math.Abs(p.Y.part(a)-p.Y.part(b)) < 3/float64(p.Height) {
				same++
			}
		}
		if same >= grid/3 {
			n++
		}
	}
	return n
}

// value returns the y of a line at x; ok is false where the line has no value.
func (p *Picture) value(points plotter.XYs, x float64) (y float64, ok bool) {
	i := sort.Search(len(points), func(i int) bool { return points[i].X >= x })
	switch {
	case i == len(points):
		return 0, false
	case i == 0:
		return points[0].Y, points[0].X == x
	case p.Steps == plotter.PreStep:
		return points[i].Y, true
	case p.Steps == plotter.PostStep:
		return points[i-1].Y, true
	}
	a, b := points[i-1], points[i]
	return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X), true
}

// part returns the position of a value on the axis, from 0 to 1.
func (a *Axis) part(v float64) float64 {
	if a.Log {
		return math.Log(max(v, a.Min)/a.Min) / math.Log(a.Max/a.Min)
	}
	return (v - a.Min) / (a.Max - a.Min)
}

// at returns the value at a position on the axis.
func (a *Axis) at(part float64) float64 {
	if a.Log {
		return a.Min * math.Pow(a.Max/a.Min, part)
	}
	return a.Min + part*(a.Max-a.Min)
}

// within clips points to what a log axis can show.
func (p *Picture) within(points plotter.XYs) plotter.XYs {
	if !p.X.Log && !p.Y.Log {
		return points
	}
	out := make(plotter.XYs, len(points))
	for i, q := range points {
		if p.X.Log {
			q.X = max(q.X, p.X.Min)
		}
		if p.Y.Log {
			q.Y = max(q.Y, p.Y.Min)
		}
		out[i] = q
	}
	return out
}

// legend draws the names of the lines in rows at the top and returns the canvas
// left below.
func (p *Picture) legend(c draw.Canvas, lines []draw.LineStyle) draw.Canvas {
	const dash, gap = 18, 14
	style := canvas.Text(9)
	height := style.Height("Mg") * 1.35
	at := vg.Point{X: c.Min.X + 4, Y: c.Max.Y - height/2}
	for i, l := range p.Lines {
		width := dash + 4 + style.Width(l.Name) + gap
		if i > 0 && at.X+width-gap > c.Max.X {
			at.X, at.Y = c.Min.X+4, at.Y-height
		}
		c.StrokeLine2(lines[i], at.X, at.Y, at.X+dash, at.Y)
		c.FillText(style, vg.Point{X: at.X + dash + 4, Y: at.Y}, l.Name)
		at.X += width
	}
	return draw.Crop(c, 0, 0, 0, at.Y-height/2-2-c.Max.Y)
}

func (a *Axis) set(to *plot.Axis) {
	to.Label.Text, to.Min, to.Max = a.Label, a.Min, a.Max
	to.Label.Padding = 3
	switch {
	case a.Names != nil:
		var ticks plot.ConstantTicks
		for i, n := range a.Names {
			ticks = append(ticks, plot.Tick{Value: float64(i + 1), Label: n})
		}
		to.Tick.Marker = ticks
	case a.Log:
		to.Scale, to.Tick.Marker = plot.LogScale{}, plot.TickerFunc(axis.Log)
	default:
		to.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick { return axis.Even(low, high, 6) })
	}
}

// timeIn converts a time to a unit of seconds.
func timeIn(t units.Time, u axis.Unit) float64 {
	return float64(t) / math.Round(u.Per*float64(units.Second))
}

// label appends the unit to a name, if there is one.
func label(what string, u axis.Unit) string {
	if u.Name == "" {
		return what
	}
	return what + " [" + u.Name + "]"
}
