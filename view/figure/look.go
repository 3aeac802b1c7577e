package figure

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/view/figure/canvas"
)

// look is the appearance of a series: its colour, and the features that identify it
// in grey.
type look struct {
	colour    color.NRGBA
	dashes    []vg.Length
	width     vg.Length  // of lines
	scale     vg.Length  // of lines, dashes and markers; 1 for labels of 8 points
	marker    []vg.Point // corners for a radius of 1; nil means a circle
	strokes   bool       // the marker consists of strokes, as pairs of corners
	alone     bool       // no other has to be told apart from it: it has no markers along lines
	hatch     []stripes
	reference bool // hollow and dotted
}

// dashes of lines: none, long, short, alternating long and short, very short.
var dashes = [][]vg.Length{nil, {4.5, 1.8}, {1.8, 1.2}, {5, 1.5, 1.2, 1.5}, {1, 1.4}}

// dots are the dashes of references.
var dots = []vg.Length{0.8, 1.4}

// markers are drawn at points; crosses and stars consist of strokes.
var markers = []struct {
	corners []vg.Point
	strokes bool
}{
	{},
	{corners: polygonCorners(4, math.Pi/4, 1.18)},
	{corners: polygonCorners(3, math.Pi/2, 1.3)},
	{corners: polygonCorners(4, 0, 1.3)},
	{corners: polygonCorners(3, -math.Pi/2, 1.3)},
	{corners: []vg.Point{{X: -0.9, Y: -0.9}, {X: 0.9, Y: 0.9}, {X: -0.9, Y: 0.9}, {X: 0.9, Y: -0.9}}, strokes: true},
	{corners: []vg.Point{{X: 0, Y: -1.2}, {X: 0, Y: 1.2}, {X: -1.2, Y: 0}, {X: 1.2, Y: 0}}, strokes: true},
	{corners: starCorners()},
}

func polygonCorners(n int, from float64, radius vg.Length) (corners []vg.Point) {
	for i := range n {
		sin, cos := math.Sincos(from + float64(i)*2*math.Pi/float64(n))
		corners = append(corners, vg.Point{X: radius * vg.Length(cos), Y: radius * vg.Length(sin)})
	}
	return corners
}

func starCorners() (corners []vg.Point) {
	for i, p := range polygonCorners(10, math.Pi/2, 1.5) {
		if i%2 == 1 {
			p.X, p.Y = p.X*0.45, p.Y*0.45
		}
		corners = append(corners, p)
	}
	return corners
}

// stripes are parallel lines across a bar.
type stripes struct {
	angle float64
	gap   vg.Length
}

// hatches of bars.
var hatches = [][]stripes{
	nil,
	{{math.Pi / 4, 3}},
	{{-math.Pi / 4, 3}},
	{{0, 2.6}},
	{{math.Pi / 4, 3.6}, {-math.Pi / 4, 3.6}},
	{{math.Pi / 2, 2.2}},
	{{0, 3.2}, {math.Pi / 2, 3.2}},
	{{math.Pi / 4, 1.7}},
}

// newLook returns the look of the i-th name, in a figure with this scale. Among the first 24, no two have the same
// dashes and marker, or the same colour and marker.
func newLook(i int, s Style, scale vg.Length) look {
	choose := func(chosen, automatic, n int) int {
		if chosen > 0 {
			return chosen - 1
		}
		return automatic % n
	}
	m := markers[choose(s.Marker, i+i/8, len(markers))]
	return look{
		colour: canvas.Colours[choose(s.Colour, i, len(canvas.Colours))],
		dashes: dashes[choose(s.Dash, i+2*(i/8), len(dashes))],
		width:  lineWidth, scale: scale,
		marker: m.corners, strokes: m.strokes,
		hatch: hatches[choose(s.Hatch, i+i/8, len(hatches))],
	}
}

// lineWidth is the width of lines that do not vary fast.
const lineWidth = 1.1

// lineStyle returns the style of its lines.
func (l *look) lineStyle() draw.LineStyle {
	style := draw.LineStyle{Color: l.colour, Width: l.width * l.scale, Dashes: l.dashes}
	if l.reference {
		style.Width, style.Dashes = 0.9*l.scale, dots
	}
	style.Dashes = slices.Clone(style.Dashes)
	for i := range style.Dashes {
		style.Dashes[i] *= l.scale
	}
	return style
}

// shadeColour returns its colour for bands.
func (l *look) shadeColour() color.NRGBA {
	c := l.colour
	c.A = 50
	return c
}

// markerRadius is the radius of circles; other markers have about the same area.
const markerRadius = 2.05

// drawMarker draws the marker at a point.
func (l *look) drawMarker(c draw.Canvas, at vg.Point) {
	radius := markerRadius * l.scale
	style := draw.LineStyle{Color: l.colour, Width: 0.8 * l.scale}
	if l.reference {
		radius *= 1.35
	}
	corner := func(p vg.Point) vg.Point { return vg.Point{X: at.X + p.X*radius, Y: at.Y + p.Y*radius} }
	if l.strokes {
		style.Width = l.scale
		for i := 0; i+1 < len(l.marker); i += 2 {
			a, b := corner(l.marker[i]), corner(l.marker[i+1])
			c.StrokeLine2(style, a.X, a.Y, b.X, b.Y)
		}
		return
	}
	var path vg.Path
	if l.marker == nil {
		path.Move(vg.Point{X: at.X + radius, Y: at.Y})
		path.Arc(at, radius, 0, 2*math.Pi)
	}
	for i, p := range l.marker {
		if i == 0 {
			path.Move(corner(p))
		} else {
			path.Line(corner(p))
		}
	}
	path.Close()
	if l.reference {
		c.SetLineStyle(style)
		c.Stroke(path)
		return
	}
	c.SetColor(l.colour)
	c.Fill(path)
	// Separate the marker from lines of the same colour.
	c.SetLineStyle(draw.LineStyle{Color: color.White, Width: 0.3})
	c.Stroke(path)
}

// fillBar draws a bar.
func (l *look) fillBar(c draw.Canvas, r vg.Rectangle) {
	c.SetColor(l.colour)
	c.Fill(r.Path())
	for _, s := range l.hatch {
		s.drawStripes(c, r)
	}
	c.SetLineStyle(draw.LineStyle{Color: l.colour, Width: 0.5})
	c.Stroke(r.Path())
}

// drawStripes draws white stripes within a rectangle.
func (s stripes) drawStripes(c draw.Canvas, r vg.Rectangle) {
	sin, cos := math.Sincos(s.angle)
	along, across := vg.Point{X: vg.Length(cos), Y: vg.Length(sin)}, vg.Point{X: vg.Length(-sin), Y: vg.Length(cos)}
	size := r.Size()
	reach := size.X + size.Y
	middle := r.Min.Add(size.Scale(0.5))
	inside := draw.Canvas{Canvas: c.Canvas, Rectangle: r}
	style := draw.LineStyle{Color: color.White, Width: 0.6}
	// Symmetric around the middle, so that even a small bar has stripes.
	for k := -int(reach/s.gap) - 1; k <= int(reach/s.gap)+1; k++ {
		at := middle.Add(across.Scale(s.gap * vg.Length(k)))
		for _, l := range inside.ClipLinesXY([]vg.Point{at.Sub(along.Scale(reach)), at.Add(along.Scale(reach))}) {
			inside.StrokeLines(style, l)
		}
	}
}
