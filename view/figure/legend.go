package figure

import (
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/view/figure/canvas"
)

// entry is one name of a legend.
type entry struct {
	text string
	look look
	kind Kind
	band bool // intervals are shaded
}

// legendEntries returns the names of all panels, followed by the sources of references, each
// once. A reference without a series of the same name has its own entry.
func (f *Figure) legendEntries(all []*data) (entries []entry) {
	own := map[string]bool{}
	for _, d := range all {
		for i := range d.lines {
			own[d.lines[i].name] = own[d.lines[i].name] || !d.lines[i].look.reference
		}
	}
	var last []entry
	for _, d := range all {
		for i := range d.lines {
			l := &d.lines[i]
			e := entry{l.name, l.look, d.Kind, d.Kind == Time && l.low != nil}
			to := &entries
			if source := d.Series[i].Reference; source != "" {
				if own[l.name] {
					e.text, e.look, to = source, look{reference: true, colour: canvas.Colours[4], scale: l.look.scale}, &last
				} else {
					e.text = strings.TrimSpace(l.name + " (" + source + ")")
				}
			}
			if !slices.ContainsFunc(*to, func(o entry) bool { return o.text == e.text }) {
				*to = append(*to, e)
			}
		}
	}
	return append(entries, last...)
}

// sampleGap is the gap between an entry's sample and its text.
const sampleGap = 3.5

// sampleWidth returns the width of the entry's sample.
func (e *entry) sampleWidth() vg.Length {
	switch {
	case e.kind == Points || e.kind == Bars && e.look.reference:
		return 7
	case e.kind == Bars:
		return 11
	}
	return 17
}

// totalWidth returns the width of the entry's sample and text.
func (e *entry) totalWidth(f face) vg.Length {
	return e.sampleWidth() + sampleGap + f.textWidth(e.text)
}

// key is a legend after layout, from its top left corner down.
type key struct {
	title   string // before the entries, or above them
	titleAt vg.Point
	entries []entry
	at      []vg.Point // of the left ends of the entries
	rows    int
	f       face
	size    vg.Point
}

// layOutTitled lays out a legend with a title: before the entries if all fit into one row with
// it, else above them.
func layOutTitled(title string, entries []entry, f face, width vg.Length, most int) key {
	if title == "" {
		return newKey(entries, f, width, most)
	}
	title = f.wrapText(title+":", width)
	room := f.textWidth(title) + 0.6*entryGap
	k := newKey(entries, f, width, most)
	if k.rows == 1 && k.size.X+room <= width {
		k.titleAt.Y = k.at[0].Y
		k.size.X += room
		for i := range k.at {
			k.at[i].X += room
		}
	} else {
		high := f.textHeight(title)
		k.titleAt.Y = -high / 2
		high += f.sizeInPoints() * 0.35
		k.size.X, k.size.Y = max(k.size.X, f.textWidth(title)), k.size.Y+high
		for i := range k.at {
			k.at[i].Y -= high
		}
	}
	k.title = title
	return k
}

// newKey lays out entries in rows no wider than width, or in columns if that takes more
// than two rows or if rows may have only few entries.
func newKey(entries []entry, f face, width vg.Length, maxRows int) (k key) {
	k = key{entries: slices.Clone(entries), f: f}
	for i := range k.entries {
		e := &k.entries[i]
		e.text = f.wrapText(e.text, width-e.sampleWidth()-sampleGap)
	}
	widths := make([]vg.Length, len(entries))
	for i := range k.entries {
		widths[i] = k.entries[i].totalWidth(f)
	}
	rows := fillRows(widths, width)
	if len(rows) > 2 || len(rows) == len(entries) || len(rows[0]) > maxRows {
		rows = fillColumns(widths, width, maxRows)
	}
	k.rows = len(rows)
	for _, row := range rows {
		k.size.X = max(k.size.X, rowWidth(row))
	}
	for _, row := range rows {
		high, x, first := vg.Length(0), (k.size.X-rowWidth(row))/2, len(k.at)
		for _, w := range row {
			if len(k.at) == len(k.entries) {
				break
			}
			e := &k.entries[len(k.at)]
			high = max(high, f.textHeight(e.text))
			k.at = append(k.at, vg.Point{X: x})
			x += w + entryGap
		}
		for i := first; i < len(k.at); i++ {
			k.at[i].Y = -k.size.Y - high/2
		}
		k.size.Y += high + f.sizeInPoints()*0.35
	}
	return k
}

// entryGap is the gap between entries in a row.
const entryGap = 10

func rowWidth(row []vg.Length) vg.Length { return sumLengths(row) + entryGap*vg.Length(len(row)-1) }

// fillRows distributes widths to rows, as many to each as fit.
func fillRows(widths []vg.Length, width vg.Length) (rows [][]vg.Length) {
	for i, w := range widths {
		if i > 0 && rowWidth(append(rows[len(rows)-1], w)) <= width {
			rows[len(rows)-1] = append(rows[len(rows)-1], w)
		} else {
			rows = append(rows, []vg.Length{w})
		}
	}
	return rows
}

// fillColumns distributes widths to rows whose columns are as wide as their widest entry: to as
// few rows as possible, and then to as few columns.
func fillColumns(widths []vg.Length, width vg.Length, maxColumns int) (rows [][]vg.Length) {
	for n := min(len(widths), maxColumns); n > 0; n-- {
		if many := (len(widths) + n - 1) / n; n > 1 && (len(widths)+many-1)/many != n {
			continue // 6 in rows of 4 become 3 and 3
		}
		column := make([]vg.Length, n)
		for i, w := range widths {
			column[i%n] = max(column[i%n], w)
		}
		if n > 1 && rowWidth(column) > width {
			continue
		}
		for range (len(widths) + n - 1) / n {
			rows = append(rows, column)
		}
		// The last row may be shorter; it is left-aligned with the others.
		return rows
	}
	return nil
}

// drawKey draws the legend; at is its top left corner.
func (k *key) drawKey(c draw.Canvas, at vg.Point) {
	k.f.drawText(c, k.title, k.titleAt.Add(at), place{y: 0.5}, color.Black)
	for i := range k.entries {
		e := &k.entries[i]
		p := k.at[i].Add(at)
		e.drawSample(c, p)
		k.f.drawText(c, e.text, vg.Point{X: p.X + e.sampleWidth() + sampleGap, Y: p.Y}, place{y: 0.5}, color.Black)
	}
}

// drawSample draws the entry's sample to the right of a point.
func (e *entry) drawSample(c draw.Canvas, at vg.Point) {
	right := at.X + e.sampleWidth()
	area := vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - 3}, Max: vg.Point{X: right, Y: at.Y + 3}}
	if e.kind == Bars && !e.look.reference {
		e.look.fillBar(c, area)
		return
	}
	if e.band {
		c.SetColor(e.look.shadeColour())
		c.Fill(area.Path())
	}
	if e.kind != Points && e.kind != Bars {
		c.StrokeLine2(e.look.lineStyle(), at.X, at.Y, right, at.Y)
	}
	e.look.drawMarker(c, vg.Point{X: (at.X + right) / 2, Y: at.Y})
}
