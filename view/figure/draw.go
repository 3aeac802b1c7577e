package figure

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawFigure draws the figure on a canvas of its size.
func (l *plan) drawFigure(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, edge, -edge, edge, -edge)
	top := c.Max.Y
	if l.title != "" {
		l.label.drawText(c, l.title, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: top}, place{x: 0.5, y: 1}, color.Black)
		top -= l.label.textHeight(l.title) + keyGap
	}
	switch {
	case l.key.entries == nil:
	case l.keyRight:
		l.key.drawKey(c, vg.Point{X: c.Max.X - l.key.size.X, Y: top - l.top[0]})
	default:
		l.key.drawKey(c, vg.Point{X: (c.Min.X + c.Max.X - l.key.size.X) / 2, Y: top})
		top -= l.key.size.Y + keyGap
	}
	for i, p := range l.panels {
		row, column := i/l.columns, i%l.columns
		x := c.Min.X + sumLengths(l.left[:column+1]) + sumLengths(l.right[:column]) + (l.plot.X+between)*vg.Length(column)
		y := top - sumLengths(l.top[:row+1]) - sumLengths(l.bottom[:row]) - (l.plot.Y+between)*vg.Length(row)
		at := vg.Rectangle{Min: vg.Point{X: x, Y: y - l.plot.Y}, Max: vg.Point{X: x + l.plot.X, Y: y}}
		p.drawPanel(draw.Canvas{Canvas: c.Canvas, Rectangle: at}, l)
	}
}

// drawPanel draws a panel; c is the canvas of its data area.
func (p *panel) drawPanel(c draw.Canvas, l *plan) {
	l.label.drawText(c, p.title, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Max.Y + 3}, place{x: 0.5}, color.Black)
	if p.Kind == Heat {
		p.drawHeat(c, l)
		return
	}
	for _, t := range p.x.ticks {
		if !t.minor && p.data.x.names == nil {
			c.StrokeLine2(gridStyle, c.X(t.at), c.Min.Y, c.X(t.at), c.Max.Y)
		}
	}
	for _, t := range p.y.ticks {
		if !t.minor {
			c.StrokeLine2(gridStyle, c.Min.X, c.Y(t.at), c.Max.X, c.Y(t.at))
		}
	}
	switch {
	case p.empty:
		l.number.drawText(c, "no data", c.Center(), place{x: 0.5, y: 0.5}, color.Gray{110})
	case p.Kind == Bars:
		p.drawBars(c)
	}
	p.drawMarks(c, l)
	p.x.drawX(c, l)
	p.y.drawY(c, l)
	if p.Kind != Bars {
		// Drawn last, so that a line along the axis is visible.
		p.drawLines(c)
	}
}
