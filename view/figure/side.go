package figure

import (
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// side is everything along an axis: ticks, their labels, and the label of the axis.
type side struct {
	ticks          []tick
	slanted        bool // the labels of ticks
	label          string
	size           vg.Length // from the data outwards
	before, beyond vg.Length // for x: the space that labels take left and right of the data area
}

const (
	tickSize  = 2.5
	minorSize = 1.5
	tickGap   = 2.2 // between a tick and its label
	labelGap  = 3   // between tick labels and the label of the axis
	slant     = 40 * math.Pi / 180
)

// sideX returns what is below the data area; only ticks unless written.
func (p *panel) sideX(l *plan, written bool) (s side) {
	f, length := l.number, l.plot.X
	if p.data.x.names == nil {
		s.ticks = p.data.x.ticksFor(length, f, false)
	} else {
		s.ticks, s.slanted = slotTicks(p.data.x.names, length, l.plot.Y, f)
	}
	s.size = tickSize
	if !written {
		for i := range s.ticks {
			s.ticks[i].label = ""
		}
		return s
	}
	high := vg.Length(0)
	for _, t := range s.ticks {
		if t.label == "" {
			continue
		}
		at, width := vg.Length(t.at)*length, f.textWidth(t.label)
		if s.slanted {
			high = max(high, width*vg.Length(math.Sin(slant))+f.sizeInPoints()*capHeight*vg.Length(math.Cos(slant)))
			s.before = max(s.before, width*vg.Length(math.Cos(slant))-at)
			continue
		}
		high = max(high, f.textHeight(t.label))
		s.before, s.beyond = max(s.before, width/2-at), max(s.beyond, at+width/2-length)
	}
	s.size += tickGap + high
	if label := p.data.x.fullLabel(); label != "" {
		s.label = l.label.wrapText(label, length+min(20, 0.2*length))
		s.size += labelGap + l.label.textHeight(s.label)
	}
	return s
}

// slotTicks returns labels for names side by side: wrapped if they fit, otherwise slanted, and
// only for some of the names if even slanted ones do not fit.
func slotTicks(names []string, length, maxLength vg.Length, f face) (ticks []tick, slanted bool) {
	n := vg.Length(len(names))
	slot := length/n - f.sizeInPoints()*0.5
	for i, name := range names {
		label := f.wrapText(name, slot)
		ticks = append(ticks, tick{at: (float64(i) + 0.5) / float64(n), label: label})
		slanted = slanted || strings.Count(label, "\n") > 2 || f.textWidth(longestWord(name)) > slot
	}
	if !slanted {
		return ticks, false
	}
	widest := vg.Length(0)
	for _, name := range names {
		widest = max(widest, f.textWidth(name))
	}
	room := f.sizeInPoints() * 1.35
	// If even slanted ones do not fit, short ones are written horizontally.
	if slanted = room < length/n || widest > 5*f.sizeInPoints(); !slanted {
		room = widest + f.sizeInPoints()*0.6
	}
	every := int(math.Ceil(float64(room * n / length)))
	some := ticks[:0]
	for i := 0; i < len(names); i += every {
		some = append(some, tick{at: ticks[i].at, label: f.cutMiddle(strings.ReplaceAll(names[i], "\n", " "), max(maxLength*0.8, 45))})
	}
	return some, slanted
}

// longestWord returns the longest part of a text without a break.
func longestWord(text string) (longest string) {
	runes, start := []rune(strings.ReplaceAll(text, "\n", " ")), 0
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && !breaksBefore(runes, i) {
			continue
		}
		if word := strings.TrimRight(string(runes[start:i]), " "); len(word) > len(longest) {
			longest = word
		}
		start = i
	}
	return longest
}

// sideY returns what is left of the data area.
func (p *panel) sideY(l *plan, written bool) (s side) {
	f, length := l.number, l.plot.Y
	if p.data.y.names == nil {
		s.ticks = p.data.y.ticksFor(length, f, true)
	} else {
		n := len(p.data.y.names)
		every := int(math.Ceil(float64(f.sizeInPoints()*1.1) * float64(n) / float64(length)))
		for i, name := range p.data.y.names {
			if i%every == 0 {
				s.ticks = append(s.ticks, tick{at: (float64(i) + 0.5) / float64(n), label: f.cutMiddle(name, max(l.plot.X*0.5, 45))})
			}
		}
	}
	s.size = tickSize
	if !written {
		for i := range s.ticks {
			s.ticks[i].label = ""
		}
		return s
	}
	s.size += tickGap + widestLabel(s.ticks, f)
	s.addUpright(l, p.data.y.fullLabel(), length)
	return s
}

// addUpright adds the label of an axis, parallel to it.
func (s *side) addUpright(l *plan, label string, length vg.Length) {
	if label != "" {
		s.label = l.label.wrapText(label, length+6)
		s.size += labelGap + l.label.textHeight(s.label)
	}
}

func widestLabel(ticks []tick, f face) (width vg.Length) {
	for _, t := range ticks {
		width = max(width, f.textWidth(t.label))
	}
	return width
}

// sideZ returns what is right of the colour bar.
func (p *panel) sideZ(l *plan) (s side) {
	s.ticks = p.data.z.ticksFor(l.plot.Y, l.number, true)
	s.size = tickSize + tickGap + widestLabel(s.ticks, l.number)
	s.addUpright(l, p.data.z.fullLabel(), l.plot.Y)
	return s
}

var (
	axisStyle = draw.LineStyle{Color: color.Black, Width: 0.6}
	gridStyle = draw.LineStyle{Color: color.Gray{222}, Width: 0.4}
)

// drawX draws the axis below c, the canvas of the data area.
func (s *side) drawX(c draw.Canvas, l *plan) {
	y := c.Min.Y
	c.StrokeLine2(axisStyle, c.Min.X, y, c.Max.X, y)
	for _, t := range s.ticks {
		x, size := c.X(t.at), vg.Length(tickSize)
		if t.minor {
			size = minorSize
		}
		c.StrokeLine2(axisStyle, x, y, x, y-size)
		if s.slanted {
			l.number.drawText(c, t.label, vg.Point{X: x + 2, Y: y - tickSize - tickGap}, place{x: 1, y: 1, rotation: slant}, color.Black)
		} else {
			l.number.drawText(c, t.label, vg.Point{X: x, Y: y - tickSize - tickGap}, place{x: 0.5, y: 1}, color.Black)
		}
	}
	l.label.drawText(c, s.label, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: y - s.size}, place{x: 0.5}, color.Black)
}

// drawY draws the axis left of the data area.
func (s *side) drawY(c draw.Canvas, l *plan) {
	x := c.Min.X
	c.StrokeLine2(axisStyle, x, c.Min.Y, x, c.Max.Y)
	for _, t := range s.ticks {
		y, size := c.Y(t.at), vg.Length(tickSize)
		if t.minor {
			size = minorSize
		}
		c.StrokeLine2(axisStyle, x, y, x-size, y)
		l.number.drawText(c, t.label, vg.Point{X: x - tickSize - tickGap, Y: y}, place{x: 1, y: 0.5}, color.Black)
	}
	l.label.drawText(c, s.label, vg.Point{X: x - s.size, Y: (c.Min.Y + c.Max.Y) / 2}, place{x: 0.5, y: 1, rotation: math.Pi / 2}, color.Black)
}

// drawZ draws the axis right of a colour bar.
func (s *side) drawZ(c draw.Canvas, l *plan) {
	x := c.Max.X
	for _, t := range s.ticks {
		y, size := c.Y(t.at), vg.Length(tickSize)
		if t.minor {
			size = minorSize
		}
		c.StrokeLine2(axisStyle, x, y, x+size, y)
		l.number.drawText(c, t.label, vg.Point{X: x + tickSize + tickGap, Y: y}, place{y: 0.5}, color.Black)
	}
	l.label.drawText(c, s.label, vg.Point{X: x + s.size, Y: (c.Min.Y + c.Max.Y) / 2}, place{x: 0.5, rotation: math.Pi / 2}, color.Black)
}
