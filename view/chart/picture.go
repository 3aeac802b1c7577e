// Package chart shows the output of runs, series of queues and flows over time and records
// of flows and of transfers, as text and as figures of package figure.
package chart

import (
	"errors"
	"math"

	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure"
	"github.com/weftlab/weft/view/figure/axis"
	"github.com/weftlab/weft/view/figure/canvas"
)

// dpi converts the size of a picture in pixels to inches.
const dpi = 96

// maxLines is the maximum number of lines in a picture: the number of colours that all
// readers can tell apart.
const maxLines = len(canvas.Colours)

// figureOf returns a figure of one panel, in the size of the options.
func figureOf(o *Options, title string, p figure.Panel) *figure.Figure {
	width, height := float64(o.Width)/dpi, float64(o.Height)/dpi
	// Small pictures have smaller letters.
	size := min(max(1.2*width, 7), 10)
	return &figure.Figure{Title: title, Width: width, Height: height, FontSize: size, DPI: dpi, Panels: []figure.Panel{p}}
}

// unitOf returns the unit of an axis for values of a gauge.
func unitOf(u gauge.Unit) figure.Unit {
	switch u {
	case gauge.Bytes:
		return figure.Bytes
	case gauge.BitsPerSecond:
		return figure.BitsPerSecond
	case gauge.Seconds:
		return figure.Seconds
	}
	return figure.Number
}

// overTime returns a panel with lines over the time between two instants. The names of the
// lines are in the order of the lines. On a logarithmic axis, values that are not above 0
// are drawn at its lower end.
func overTime(o *Options, from, to units.Time, y figure.Axis, names []string, lines []*series.Envelope) (*figure.Panel, error) {
	p := &figure.Panel{Kind: figure.Time, Y: y, X: figure.Axis{Label: "emulated time", Unit: figure.Seconds}}
	p.X.Min, p.X.Max = figure.At(from.Seconds()), figure.At(max(to, from+units.Microsecond).Seconds())
	least, most := math.Inf(1), 0.0 // of values above 0
	for i, l := range lines {
		s := figure.Series{Name: names[i]}
		for _, q := range l.Points() {
			s.X, s.Y = append(s.X, q.At.Seconds()), append(s.Y, q.Value)
			if most = max(most, q.Value); q.Value > 0 {
				least = min(least, q.Value)
			}
		}
		p.Series = append(p.Series, s)
	}
	if !o.LogY {
		return p, nil
	}
	if most == 0 {
		return nil, errors.New("all values are 0: there is nothing to show on a logarithmic axis")
	}
	low, high := axis.LogRange(least, most)
	p.Y.Scale, p.Y.Min, p.Y.Max = figure.Log, figure.At(low), figure.At(high)
	for _, s := range p.Series {
		for i := range s.Y {
			s.Y[i] = max(s.Y[i], low)
		}
	}
	return p, nil
}
