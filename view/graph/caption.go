package graph

import "math"

// caption is a text with its place.
type caption struct {
	text string
	box  box
}

func labelBox(text string) box { return box{w: textWidth(text, smallSize) + 4, h: smallSize + 3} }

// maxCaptions is the maximum number of labels to try. A drawing with more
// would not be any clearer, and finding room takes long.
const maxCaptions = 200

// placeCaptions finds room for the labels of links beside nodes, each other and the
// other links, and returns how many are left out.
func (l *layout) placeCaptions(lines []line) (placed []caption, left int) {
	labelled := 0
	for i, text := range l.labels {
		if text == "" {
			continue
		}
		left++
		if labelled++; labelled > maxCaptions {
			continue
		}
		for _, t := range []float64{0.5, 0.6, 0.4, 0.7, 0.3, 0.8} {
			b := labelBox(text)
			p := lines[i].pointAt(t)
			b.x, b.y = p.x, p.y
			if l.isFree(b, i, lines, placed) {
				placed = append(placed, caption{text, b})
				left--
				break
			}
		}
	}
	return placed, left
}

// isFree reports whether a label of a link would cover nothing but that link.
func (l *layout) isFree(b box, link int, lines []line, placed []caption) bool {
	for _, n := range l.boxes {
		if b.overlaps(n) {
			return false
		}
	}
	for _, c := range placed {
		if b.overlaps(c.box) {
			return false
		}
	}
	for i, line := range lines {
		if i != link && line.meetsBox(b) {
			return false
		}
	}
	return true
}

// meetsBox reports whether a line crosses a rectangle.
func (l line) meetsBox(b box) bool {
	p := l.pointsAlong()
	for i := 1; i < len(p); i++ {
		if b.meetsLine(p[i-1], p[i]) {
			return true
		}
	}
	return false
}

// meetsLine reports whether a straight line crosses a rectangle: they overlap in x
// and in y, and not all corners are on one side of the line.
func (b box) meetsLine(p, q point) bool {
	around := box{(p.x + q.x) / 2, (p.y + q.y) / 2, math.Abs(p.x - q.x), math.Abs(p.y - q.y)}
	dx, dy := q.x-p.x, q.y-p.y
	distance := math.Abs((b.x-p.x)*dy - (b.y-p.y)*dx)
	reach := (b.w*math.Abs(dy) + b.h*math.Abs(dx)) / 2
	return growBox(around, 0.1).overlaps(b) && distance < reach
}
