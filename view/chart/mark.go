package chart

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure/axis"
	"github.com/weftlab/weft/view/figure/canvas"
)

// Mark is an instant that a picture shows as a vertical line.
type Mark struct {
	X    float64
	Name string
	Bad  bool // in red
}

// maxNames is how many marks can have their names written beside them and remain
// readable.
const maxNames = 12

// marks draws the marks of a picture.
type marks []Mark

var (
	badMark   = color.NRGBA{192, 57, 43, 255}
	plainMark = color.NRGBA{110, 110, 110, 255}
)

// Plot implements plot.Plotter.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	style := text.Style{XAlign: draw.XRight, YAlign: draw.YBottom, Rotation: math.Pi / 2, Handler: plot.DefaultTextHandler}
	style.Font = canvas.Sans(7.5)
	last := c.Min.X - 100
	for _, mark := range m {
		line := draw.LineStyle{Color: plainMark, Width: vg.Points(0.7), Dashes: []vg.Length{2, 2}}
		if mark.Bad {
			line.Color, style.Color = badMark, badMark
		} else {
			style.Color = plainMark
		}
		at := x(mark.X)
		c.StrokeLine2(line, at, c.Min.Y, at, c.Max.Y)
		// Overlapping names cannot be read.
		if len(m) <= maxNames && at-last > 9 {
			c.FillText(style, vg.Point{X: at - 1, Y: c.Max.Y - 3}, mark.Name)
			last = at
		}
	}
}

// bad are the events drawn in red: something was lost.
var bad = map[string]bool{status.LinkDown: true, status.Watchdog: true, status.Stuck: true, status.HostLost: true}

// marksOf returns the events in the files beside the series of a picture, within its
// time range.
func marksOf(files []string, from, to units.Time, x axis.Unit) (all []Mark, err error) {
	for _, f := range files {
		events, err := report.ReadEvents(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w (without that file no events are drawn)", report.EventsFile(f), err)
		}
		for i := range events {
			m := &events[i]
			if m.At < from || m.At > to {
				continue
			}
			name := m.Event
			if where := m.Place(); where != "" {
				name += " " + where
			}
			all = append(all, Mark{X: timeIn(m.At, x), Name: name, Bad: bad[m.Event]})
		}
	}
	slices.SortStableFunc(all, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
	return all, nil
}
