package figure

import (
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/view/figure/canvas"
)

// face is the font at a size.
type face struct{ size float64 }

// Metrics of Liberation Sans, the same as of Arial, relative to its size.
const (
	capHeight  = 0.716 // of capitals and digits, above the baseline
	descent    = 0.212 // below it
	lineHeight = 1.2   // from baseline to baseline
)

// part is a piece of a line with one size and baseline.
type part struct {
	text string
	size float64   // relative to the face's size
	rise vg.Length // of the baseline, relative to the face's size
}

// splitScripts splits a line into parts: ^{superscript}, _{subscript}.
func splitScripts(line string) (all []part) {
	plain := func(s string) {
		if s != "" {
			all = append(all, part{s, 1, 0})
		}
	}
	for {
		i := strings.IndexAny(line, "^_")
		for i >= 0 && !strings.HasPrefix(line[i+1:], "{") {
			next := strings.IndexAny(line[i+1:], "^_")
			if next < 0 {
				i = -1
				break
			}
			i += 1 + next
		}
		if i < 0 {
			break
		}
		end := strings.IndexByte(line[i:], '}')
		if end < 0 {
			break
		}
		plain(line[:i])
		p := part{line[i+2 : i+end], 0.72, 0.36}
		if line[i] == '_' {
			p.rise = -0.16
		}
		all = append(all, p)
		line = line[i+end+1:]
	}
	plain(line)
	return all
}

func (f face) sizeInPoints() vg.Length { return vg.Points(f.size) }

func findFace(size float64) *font.Face {
	f := plot.DefaultTextHandler.Cache().Lookup(canvas.SansFont(size), vg.Points(size))
	return &f
}

// textWidth returns the width of the widest line.
func (f face) textWidth(text string) (widest vg.Length) {
	for line := range strings.SplitSeq(text, "\n") {
		w := vg.Length(0)
		for _, p := range splitScripts(line) {
			w += findFace(f.size * p.size).Width(p.text)
		}
		widest = max(widest, w)
	}
	return widest
}

// textHeight returns the height of the lines, from the top of the first one's capitals to the
// descent of the last; 0 without text.
func (f face) textHeight(text string) vg.Length {
	if text == "" {
		return 0
	}
	lines := 1 + strings.Count(text, "\n")
	return f.sizeInPoints() * vg.Length(capHeight+descent+lineHeight*float64(lines-1))
}

// place says which point of a text is placed at the given position.
type place struct {
	x        float64 // 0 its left end, 0.5 its middle, 1 its right end
	y        float64 // 0 its bottom, 0.5 the middle of its capitals, 1 its top
	rotation float64 // anticlockwise, around the point
}

// drawText draws text; its lines are aligned as the text is.
func (f face) drawText(c draw.Canvas, text string, at vg.Point, p place, colour color.Color) {
	if text == "" {
		return
	}
	c.Push()
	defer c.Pop()
	c.SetColor(colour)
	c.Translate(at)
	if p.rotation != 0 {
		c.Rotate(p.rotation)
	}
	lines := strings.Split(text, "\n")
	block := f.sizeInPoints() * vg.Length(lineHeight*float64(len(lines)-1))
	// Baseline of the first line.
	var y vg.Length
	switch p.y {
	case 0:
		y = f.sizeInPoints()*descent + block
	case 1:
		y = -f.sizeInPoints() * capHeight
	default:
		y = block/2 - f.sizeInPoints()*capHeight/2
	}
	for _, line := range lines {
		x := -f.textWidth(line) * vg.Length(p.x)
		for _, q := range splitScripts(line) {
			small := findFace(f.size * q.size)
			// SVG ignores leading spaces.
			text := strings.TrimLeft(q.text, " ")
			x += small.Width(q.text) - small.Width(text)
			c.FillString(*small, vg.Point{X: x, Y: y + f.sizeInPoints()*q.rise}, text)
			x += small.Width(text)
		}
		y -= f.sizeInPoints() * lineHeight
	}
}

// wrapText breaks text into lines no wider than width: at spaces, after hyphens and slashes
// and, if there are none, anywhere.
func (f face) wrapText(text string, width vg.Length) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		for f.textWidth(line) > width {
			fits, soft := 1, 0
			runes := []rune(line)
			for i := 1; i < len(runes); i++ {
				if f.textWidth(strings.TrimRight(string(runes[:i]), " ")) > width {
					break
				}
				fits = i
				if breaksBefore(runes, i) {
					soft = i
				}
			}
			if soft > 0 {
				fits = soft
			}
			if fits == len(runes) {
				break
			}
			lines = append(lines, strings.TrimRight(string(runes[:fits]), " "))
			line = strings.TrimLeft(string(runes[fits:]), " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// breaksBefore reports whether a line may end before the i-th character.
func breaksBefore(runes []rune, i int) bool {
	// _{ begins a subscript.
	return strings.ContainsRune(" -/_", runes[i-1]) && runes[i] != '{'
}

// cutMiddle removes the middle of a line that is wider than width.
func (f face) cutMiddle(line string, width vg.Length) string {
	if f.textWidth(line) <= width {
		return line
	}
	runes := []rune(line)
	for keep := len(runes) - 1; keep > 1; keep-- {
		head := int(math.Ceil(float64(keep) / 2))
		short := string(runes[:head]) + "…" + string(runes[len(runes)-(keep-head):])
		if f.textWidth(short) <= width {
			return short
		}
	}
	return "…"
}
