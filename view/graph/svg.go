package graph

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/weftlab/weft/emu/plan"
)

// margin is around the drawing.
const margin = 16.0

// WriteSVG draws a plan as a self-contained picture: hosts at the bottom, switches
// in rows above by their distance from the hosts. Pointing at a link shows what
// it joins and its settings.
func WriteSVG(w io.Writer, p *plan.Plan) error {
	r := newRows(p)
	labels, legend := r.labelLinks()
	l := newLayout(r, labels)
	lines := l.drawLinks()
	texts, left := l.placeCaptions(lines)
	if left > 0 {
		legend = append(legend, fmt.Sprintf("links without room for a label: %d", left))
	}
	area := l.areaOf(lines, texts)
	if len(legend) > 0 {
		text := strings.Join(legend, " · ")
		at := box{h: smallSize, w: textWidth(text, smallSize)}
		at.x, at.y = area.x, area.bottom()+2*smallSize
		texts = append(texts, caption{text, at})
		area = boxAroundBoth(area, at)
	}
	area = growBox(area, margin)

	s := &svg{}
	s.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="%.1f %.1f %.1f %.1f" width="%.0f" height="%.0f" font-family="Helvetica, Arial, sans-serif" text-anchor="middle">`+"\n",
		area.left(), area.top(), area.w, area.h, area.w, area.h)
	s.printf("<title>%s</title>\n", escapeXML(p.Name))
	s.writeRect(area, `fill="#fff"`)
	s.writeLinks(l, lines)
	s.writeNodes(l)
	s.writeCaptions(texts)
	s.printf("</svg>\n")
	_, err := w.Write(s.Bytes())
	return err
}

// areaOf returns the rectangle around everything.
func (l *layout) areaOf(lines []line, texts []caption) box {
	var area box
	for i, b := range l.boxes {
		if i == 0 {
			area = b
		}
		area = boxAroundBoth(area, b)
	}
	for _, line := range lines {
		for _, p := range line.pointsAlong() {
			area = boxAroundBoth(area, box{x: p.x, y: p.y})
		}
	}
	for _, t := range texts {
		area = boxAroundBoth(area, t.box)
	}
	return area
}

// boxAroundBoth returns the rectangle around two.
func boxAroundBoth(a, b box) box {
	x, y := min(a.left(), b.left()), min(a.top(), b.top())
	w, h := max(a.right(), b.right())-x, max(a.bottom(), b.bottom())-y
	return box{x + w/2, y + h/2, w, h}
}

func growBox(b box, by float64) box { return box{b.x, b.y, b.w + 2*by, b.h + 2*by} }

// svg collects the text of a drawing.
type svg struct{ bytes.Buffer }

func (s *svg) printf(format string, args ...any) { fmt.Fprintf(s, format, args...) }

func escapeXML(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // a Buffer takes everything
	return b.String()
}

func (s *svg) writeRect(b box, attributes string) {
	s.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>`+"\n", b.left(), b.top(), b.w, b.h, attributes)
}

// writeText writes a line of text centred at a point.
func (s *svg) writeText(x, y, size float64, text, attributes string) {
	s.printf(`<text x="%.1f" y="%.1f" font-size="%g" %s>%s</text>`+"\n", x, y+0.35*size, size, attributes, escapeXML(text))
}

func (s *svg) writeLinks(l *layout, lines []line) {
	// Links that are down come first: where links share a line, it is drawn as
	// up if one of them is.
	for _, group := range []struct {
		down  bool
		style string
	}{{true, `stroke="#c0392b" stroke-dasharray="5 4"`}, {false, `stroke="#6b7785"`}} {
		s.printf(`<g fill="none" stroke-width="1.3" stroke-linejoin="round" %s>`+"\n", group.style)
		for i, link := range l.Links {
			if isDown(link) == group.down {
				style := ""
				if b := l.busOf(i); b != nil && !group.down {
					style = fmt.Sprintf(` stroke="%s"`, b.lineColour())
				}
				s.writeLink(l, link, lines[i], style)
			}
		}
		s.printf("</g>\n")
	}
	if l.folded == nil {
		return
	}
	for _, b := range l.folded.buses {
		for _, p := range b.findJoints(lines) {
			s.printf(`<circle cx="%.1f" cy="%.1f" r="2.2" fill="%s"/>`+"\n", p.x, p.y, b.lineColour())
		}
	}
}

// writeLink draws a link; style is further attributes of its line.
func (s *svg) writeLink(l *layout, link plan.Link, line line, style string) {
	s.printf(`<path%s d="M`, style)
	for k, p := range line.points {
		if k == 1 && line.bent {
			s.printf(" Q")
		}
		s.printf(" %.1f %.1f", p.x, p.y)
	}
	one, other := link.Ends[l.higherEnd(link)], link.Ends[1-l.higherEnd(link)]
	s.printf("\"><title>%s</title></path>\n", escapeXML(fmt.Sprintf("%s to %s: %s",
		l.PortName(one.Node, one.Port), l.PortName(other.Node, other.Port), l.describeLink(link))))
}

func (s *svg) writeNodes(l *layout) {
	for n, node := range l.Nodes {
		b := l.boxes[n]
		name, small := `fill="#33290f"`, `fill="#6b5a2c"`
		if l.isHost(n) {
			s.writeRect(b, `rx="9" fill="#fbf6e9" stroke="#a08040"`)
		} else {
			s.writeRect(b, `rx="2" fill="#d6e4f2" stroke="#2f5d8c" stroke-width="1.3"`)
			name, small = `fill="#14304d" font-weight="bold"`, `fill="#2f5d8c"`
		}
		a := addressOf(node)
		if a == "" {
			s.writeText(b.x, b.y, nameSize, node.Name, name)
			continue
		}
		s.writeText(b.x, b.y-7.5, nameSize, node.Name, name)
		s.writeText(b.x, b.y+8.5, smallSize, a, small)
	}
}

func (s *svg) writeCaptions(texts []caption) {
	for _, t := range texts {
		s.writeRect(t.box, `fill="#fff"`)
		s.writeText(t.box.x, t.box.y, smallSize, t.text, `fill="#333"`)
	}
}
