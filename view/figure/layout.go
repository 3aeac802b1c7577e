package figure

import (
	"cmp"
	"fmt"

	"gonum.org/v1/plot/vg"
)

// plan is a figure after layout: all sizes are known.
type plan struct {
	label, number face
	title         string
	key           key // no entries if there is no legend
	keyRight      bool
	panels        []*panel
	columns, rows int
	left, right   []vg.Length // margins of the columns of panels
	bottom, top   []vg.Length // and of the rows
	plot          vg.Point    // size of each panel's data area
	size          vg.Point    // of the figure
}

// panel is a panel after layout.
type panel struct {
	*data
	title   string
	x, y, z side // z has no ticks without a colour bar
}

const (
	edge     = 2  // around the figure
	between  = 9  // between panels
	keyGap   = 4  // between the legend and panels
	barGap   = 6  // between a heat map and its colour bar
	barSize  = 7  // of a colour bar
	minWidth = 36 // minimum width of a panel's data area
	lowest   = 24 // minimum height
)

// defaultSize is the size of labels in points, to which the sizes of lines are suited.
const defaultSize = 8

func (f *Figure) fontSize() float64 { return cmp.Or(f.FontSize, defaultSize) }

// layOut lays out the figure, whose data have been checked.
func (f *Figure) layOut() (*plan, error) {
	size := f.fontSize()
	l := &plan{label: face{size}, number: face{size - 1}, keyRight: f.Legend == Right}
	l.size = vg.Point{X: vg.Length(f.Width) * vg.Inch, Y: vg.Length(f.Height) * vg.Inch}
	if f.Width == 0 {
		l.size.X = OneColumn * vg.Inch
	}
	inner := l.size.Sub(vg.Point{X: 2 * edge, Y: 2 * edge}) // space for panels
	l.title = l.label.wrapText(f.Title, inner.X)
	above := l.label.textHeight(l.title)
	if above > 0 {
		above += keyGap
	}
	all := f.preparePanels()
	if entries := f.legendEntries(all); f.Legend != Hidden && len(entries) > 1 {
		if l.keyRight {
			l.key = layOutTitled(f.Names, entries, l.number, inner.X*0.38, 1)
			inner.X -= l.key.size.X + 2*keyGap
		} else {
			l.key = layOutTitled(f.Names, entries, l.number, inner.X, len(entries))
			above += l.key.size.Y + keyGap
		}
	}
	inner.Y -= above
	for _, d := range all {
		l.panels = append(l.panels, &panel{data: d})
	}
	l.columns = f.Columns
	if l.columns == 0 {
		l.columns = max(1, int(inner.X/(1.5*vg.Inch)))
	}
	l.columns = min(l.columns, len(all))
	l.rows = (len(all) + l.columns - 1) / l.columns
	// Margins depend on the lengths of axes, which depend on margins.
	l.plot = vg.Point{X: inner.X / vg.Length(l.columns) * 0.8, Y: 90}
	for range 4 {
		l.setMargins(f)
		if err := l.setPlot(f, inner); err != nil {
			return nil, err
		}
	}
	l.alignLabels()
	if f.Height == 0 {
		high := l.plot.Y*vg.Length(l.rows) + sumLengths(l.bottom) + sumLengths(l.top) + between*vg.Length(l.rows-1)
		if l.keyRight {
			high = max(high, l.key.size.Y)
		}
		l.size.Y = high + above + 2*edge
	}
	return l, nil
}

// setMargins computes the space for texts around the data area, whose size is known
// approximately.
func (l *plan) setMargins(f *Figure) {
	l.left, l.right = make([]vg.Length, l.columns), make([]vg.Length, l.columns)
	l.bottom, l.top = make([]vg.Length, l.rows), make([]vg.Length, l.rows)
	for i, p := range l.panels {
		row, column := i/l.columns, i%l.columns
		// Shared axes are labelled only at the left and at the bottom.
		p.x = p.sideX(l, !f.ShareX || i+l.columns >= len(l.panels))
		p.y = p.sideY(l, !f.ShareY || column == 0)
		left, right := max(p.x.before, p.y.size), p.x.beyond
		if p.Kind == Heat {
			p.z = p.sideZ(l)
			right = max(right, barGap+barSize+p.z.size)
		}
		top := l.number.sizeInPoints() * capHeight / 2 // for the number at the end of y
		if p.Title != "" {
			p.title = l.label.wrapText(p.Title, l.plot.X+min(left, right))
			top = l.label.textHeight(p.title) + 3
		}
		l.left[column], l.right[column] = max(l.left[column], left), max(l.right[column], right)
		l.bottom[row], l.top[row] = max(l.bottom[row], p.x.size), max(l.top[row], top)
	}
}

// alignLabels aligns the axis labels in each column and each row of panels.
func (l *plan) alignLabels() {
	across, down := make([]vg.Length, l.columns), make([]vg.Length, l.rows)
	for i, p := range l.panels {
		across[i%l.columns], down[i/l.columns] = max(across[i%l.columns], p.y.size), max(down[i/l.columns], p.x.size)
	}
	for i, p := range l.panels {
		p.y.size, p.x.size = across[i%l.columns], down[i/l.columns]
	}
}

// setPlot gives the data areas the space that the margins leave.
func (l *plan) setPlot(f *Figure, inner vg.Point) error {
	l.plot.X = (inner.X - sumLengths(l.left) - sumLengths(l.right) - between*vg.Length(l.columns-1)) / vg.Length(l.columns)
	if l.plot.X < minWidth {
		return fmt.Errorf("the figure is too narrow: of its %.3g in, %d columns of panels would have %.2g in each for data (at least %.2g): use fewer columns or shorter labels, or make it wider",
			l.size.X/vg.Inch, l.columns, l.plot.X/vg.Inch, minWidth/vg.Inch)
	}
	if f.Height == 0 {
		l.plot.Y = l.suitableHeight()
		return nil
	}
	l.plot.Y = (inner.Y - sumLengths(l.bottom) - sumLengths(l.top) - between*vg.Length(l.rows-1)) / vg.Length(l.rows)
	if l.plot.Y < lowest || l.keyRight && inner.Y < l.key.size.Y {
		return fmt.Errorf("the figure is too low: of its %.3g in, %d rows of panels and the legend leave %.2g in each for data (at least %.2g): use fewer rows or names, or make it higher",
			f.Height, l.rows, max(l.plot.Y, 0)/vg.Inch, lowest/vg.Inch)
	}
	return nil
}

// suitableHeight returns the height of the data area for its width; for heat maps it makes
// square cells.
func (l *plan) suitableHeight() vg.Length {
	cells := vg.Length(0)
	for _, p := range l.panels {
		if p.Kind != Heat {
			return min(max(l.plot.X*0.6, 62), 130)
		}
		cells = max(cells, vg.Length(len(p.Matrix))/vg.Length(len(p.X.Names)))
	}
	return min(max(l.plot.X*cells, 40), l.plot.X*1.2)
}

func sumLengths(lengths []vg.Length) (s vg.Length) {
	for _, v := range lengths {
		s += v
	}
	return s
}
