// Package chart shows what runs have written: series of queues over time and
// flow records, as pictures and as figures.
package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// dpi are the pixels of an inch, in PNG and SVG alike.
const dpi = 96

// MaxLines is how many lines a picture has at most: as many as there are
// colours that everybody can tell apart.
const MaxLines = 8

// colours are those of Okabe and Ito (2008), which the colour-blind can tell
// apart, without their yellow, which is hard to see on white.
var colours = [MaxLines]color.NRGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{0, 0, 0, 255}, {86, 180, 233, 255}, {230, 159, 0, 255}, {130, 90, 60, 255},
}

// Line is one line of a picture. Its points are in units of the axes.
type Line struct {
	Name   string
	Points plotter.XYs
}

// Axis is one axis of a picture.
type Axis struct {
	Label    string
	Min, Max float64
	Log      bool // then Min is above 0
}

// Picture is lines over two axes.
type Picture struct {
	Title         string
	X, Y          Axis
	Steps         plotter.StepKind
	Lines         []Line // at most MaxLines
	Width, Height int    // in pixels
}

// Write draws the picture in a format: "png" or "svg".
func (p *Picture) Write(w io.Writer, format string) error {
	width, height := vg.Length(p.Width)*vg.Inch/dpi, vg.Length(p.Height)*vg.Inch/dpi
	var c vg.CanvasWriterTo
	if format == "svg" {
		c = vgsvg.New(width, height)
	} else {
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	}
	if err := p.draw(draw.NewCanvas(c, width, height)); err != nil {
		return err
	}
	_, err := c.WriteTo(w)
	return err
}

func (p *Picture) draw(c draw.Canvas) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	g := plot.New()
	sans(&g.Title.TextStyle, 11)
	for _, a := range []*plot.Axis{&g.X, &g.Y} {
		sans(&a.Label.TextStyle, 10)
		sans(&a.Tick.Label, 9)
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
		line.Color = colours[i%MaxLines]
		// Later lines are thinner, so that of lines that lie on each other
		// all can be seen.
		line.Width = vg.Points(2 - 1.2*float64(i)/float64(max(len(p.Lines)-1, 3)))
		if len(p.Lines) == 1 {
			line.Width = vg.Points(1)
		}
		g.Add(line)
		styles = append(styles, line.LineStyle)
	}
	g.X.Min, g.X.Max, g.Y.Min, g.Y.Max = p.X.Min, p.X.Max, p.Y.Min, p.Y.Max
	inner := draw.Crop(c, 6, -14, 5, -5)
	if len(p.Lines) > 1 {
		inner = p.legend(inner, styles)
	}
	g.Draw(inner)
	return nil
}

// within keeps points inside what a log axis can show.
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

// legend names the lines in rows at the top and gives what is left below.
func (p *Picture) legend(c draw.Canvas, lines []draw.LineStyle) draw.Canvas {
	const dash, gap = 18, 14
	style := text.Style{Color: color.Black, XAlign: draw.XLeft, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	sans(&style, 9)
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

func sans(s *text.Style, size float64) {
	s.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size))
}

func (a *Axis) set(to *plot.Axis) {
	to.Label.Text, to.Min, to.Max = a.Label, a.Min, a.Max
	to.Label.Padding = 3
	if a.Log {
		to.Scale, to.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		to.Tick.Marker = evenTicks{}
	}
}

// evenTicks are marks at 1, 2 or 5 times a power of ten, with labels that are
// exact.
type evenTicks struct{}

// Ticks implements plot.Ticker.
func (evenTicks) Ticks(low, high float64) []plot.Tick {
	const about = 6
	span := (high - low) / about
	if !(span > 0) {
		return nil
	}
	exponent := math.Floor(math.Log10(span))
	step := math.Pow(10, exponent)
	switch f := span / step; {
	case f > 5:
		step *= 10
		exponent++
	case f > 2:
		step *= 5
	case f > 1:
		step *= 2
	}
	digits := int(max(0, -exponent))
	var ticks []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9; i++ {
		at := i*step + 0 // no -0
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%.*f", digits, at)})
	}
	return ticks
}

// scale is a unit and how many of what is measured make one.
type scale struct {
	per  float64
	unit string
}

var (
	seconds = []scale{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}
	bytes   = []scale{{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "B"}}
	bps     = []scale{{1e9, "Gb/s"}, {1e6, "Mb/s"}, {1e3, "Kb/s"}, {1, "b/s"}}
	packets = []scale{{1e6, "million packets/s"}, {1e3, "thousand packets/s"}, {1, "packets/s"}}
	percent = []scale{{0.01, "%"}}
)

// fit chooses the unit in which v has few digits.
func fit(scales []scale, v float64) scale {
	for _, s := range scales {
		if v >= s.per*1.5 || s == scales[len(scales)-1] {
			return s
		}
	}
	return scales[0]
}
