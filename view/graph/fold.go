package graph

import (
	"cmp"
	"math"
	"slices"
)

// Shape of drawings, width by height.
const (
	maxWide   = 3.0    // beyond which a drawing is folded
	wideFrom  = 2400.0 // but not if it is less wide than this, in pixels
	goodShape = 1.7    // that folding aims at
)

// Room in folded drawings.
const (
	channelWidth = 3 * gap // beside each block, for the links that pass it; buses need more
	laneHeight   = 80.0    // above each shelf, for the links that come in
)

// block is a part of the lab that is drawn like a separate lab: a pod, or a leaf with
// its hosts.
type block struct {
	nodes   []int
	shelf   int     // from the top
	channel float64 // x of the links that pass on its left
	top     float64 // y of its highest node
	area    box
}

// folded is a drawing whose lower rows are too wide: they are cut into blocks,
// which stand on shelves below the rows above.
type folded struct {
	blocks []*block
	of     []*block // by node; nil above the shelves

	channelWidth float64      // room beside each block
	buses        []*bus       // from the top
	busOf        map[int]*bus // by link
}

// foldOntoShelves puts the blocks of a drawing that is too wide onto shelves.
func (l *layout) foldOntoShelves() {
	if len(l.order) < 2 {
		return
	}
	all := l.boxAround(nil)
	if all.w <= max(maxWide*all.h, wideFrom) {
		return
	}
	above, groups := l.cutIntoGroups(all)
	if len(groups) < 2 {
		return
	}
	f := &folded{of: make([]*block, len(l.Nodes)), channelWidth: channelWidth}
	// The layout below the switches above the shelves decides where these are.
	for _, nodes := range groups {
		b := &block{nodes: nodes}
		for _, n := range nodes {
			f.of[n] = b
		}
		f.blocks = append(f.blocks, b)
	}
	l.folded = f
	l.findBuses()
	l.drop = 0
	for _, b := range f.blocks {
		sub := l.layoutOf(b)
		sub.layRows()
		b.area = l.boxAround(b.nodes)
		l.drop = max(l.drop, sub.drop)
	}
	width := l.shelveBlocks()
	y := 0.0
	for t := above; t < len(l.order); t++ {
		row := l.switchRow(t, width)
		width = max(width, widthOfRow(row))
		y -= min(max(width/12, laneHeight), 400)
		y -= l.boxes[l.order[t][0]].h
		for i, n := range l.order[t] {
			l.boxes[n].x, l.boxes[n].y = row[i].box.x, y+l.boxes[n].h/2
		}
	}
	l.placeBuses()
}

// boxAround returns the rectangle around some nodes, or around all if nodes is nil.
func (l *layout) boxAround(nodes []int) box {
	var all box
	first := true
	add := func(b box) {
		if all = boxAroundBoth(all, b); first {
			all, first = b, false
		}
	}
	for _, n := range nodes {
		add(l.boxes[n])
	}
	if nodes == nil {
		for _, b := range l.boxes {
			add(b)
		}
	}
	return all
}

// cutIntoGroups cuts a drawing of size all into blocks, left to right: the connected parts
// below a row, of the highest row that gives small enough parts, or else runs of
// leaves. Nodes in row above and higher are in no block.
func (l *layout) cutIntoGroups(all box) (above int, groups [][]int) {
	for t := len(l.order) - 2; t >= 1; t-- {
		parts := l.partsBelow(t)
		widest := 0.0
		for _, p := range parts {
			widest = max(widest, l.boxAround(p).w)
		}
		if widest < all.w/2 {
			return t + 1, parts
		}
	}
	return 2, l.cutLeaves(int(math.Ceil(math.Sqrt(all.w / all.h / goodShape))))
}

// partsBelow returns the parts of rows 0 to t that are connected without the
// rows above, from left to right.
func (l *layout) partsBelow(t int) (parts [][]int) {
	seen := make([]bool, len(l.Nodes))
	for n := range l.Nodes {
		if seen[n] || l.tier[n] > t {
			continue
		}
		part := []int{n}
		seen[n] = true
		for i := 0; i < len(part); i++ {
			for _, m := range l.neighbours[part[i]] {
				if !seen[m] && l.tier[m] <= t {
					seen[m] = true
					part = append(part, m)
				}
			}
		}
		parts = append(parts, part)
	}
	slices.SortStableFunc(parts, func(a, b []int) int { return cmp.Compare(l.boxAround(a).left(), l.boxAround(b).left()) })
	return parts
}

// cutLeaves cuts the row of leaves into count runs, each with its hosts.
func (l *layout) cutLeaves(count int) [][]int {
	leaves := l.order[1]
	count = min(count, len(leaves))
	of := make([]int, len(l.Nodes))
	groups := make([][]int, count)
	for i, n := range leaves {
		of[n] = i * count / len(leaves)
		groups[of[n]] = append(groups[of[n]], n)
	}
	for _, n := range l.order[0] {
		run := 0
		for _, m := range l.neighbours[n] {
			if l.tier[m] == 1 {
				run = of[m]
				break
			}
		}
		groups[run] = append(groups[run], n)
	}
	return groups
}

// layoutOf returns a block as a separate layout that shares its boxes with the whole.
func (l *layout) layoutOf(b *block) *layout {
	r := *l.rows
	r.neighbours = make([][]int, len(l.Nodes))
	for _, n := range b.nodes {
		for _, m := range l.neighbours[n] {
			if l.folded.of[m] == b {
				r.neighbours[n] = append(r.neighbours[n], m)
			}
		}
	}
	r.order = nil
	for _, row := range l.order {
		var own []int
		for _, n := range row {
			if l.folded.of[n] == b {
				own = append(own, n)
			}
		}
		if len(own) > 0 || len(r.order) == 0 { // a block may have only switches
			r.order = append(r.order, own)
		}
	}
	return &layout{rows: &r, labels: l.labels, boxes: l.boxes, columns: l.columns}
}

// shelveBlocks puts the blocks onto the number of shelves that gives the best shape, and
// returns their width.
func (l *layout) shelveBlocks() (width float64) {
	f := l.folded
	cell, height := 0.0, 0.0
	for _, b := range f.blocks {
		cell, height = max(cell, b.area.w+f.channelWidth+gap), max(height, b.area.h+laneHeight)
	}
	columns, best := 1, math.Inf(1)
	for c := 1; c <= len(f.blocks); c++ {
		shelves := (len(f.blocks) + c - 1) / c
		if off := math.Abs(math.Log(float64(c) * cell / (float64(shelves) * height) / goodShape)); off < best {
			columns, best = c, off
		}
	}
	shelves := (len(f.blocks) + columns - 1) / columns
	columns = (len(f.blocks) + shelves - 1) / shelves // no shelf much shorter than the others
	y := 0.0
	for i, b := range f.blocks {
		b.shelf = i / columns
		if i%columns == 0 && i > 0 {
			tallest := 0.0
			for _, before := range f.blocks[i-columns : i] {
				tallest = max(tallest, before.area.h)
			}
			y += tallest + laneHeight
		}
		left := float64(i%columns) * cell
		b.channel, b.top = left+f.channelWidth/2, y
		l.moveBlock(b, left+f.channelWidth-b.area.left(), y-b.area.top())
	}
	return float64(columns) * cell
}

// moveBlock moves a block.
func (l *layout) moveBlock(b *block, dx, dy float64) {
	moved := map[*column]bool{}
	for _, n := range b.nodes {
		l.boxes[n].x += dx
		l.boxes[n].y += dy
		if c := l.columns[n]; !moved[c] {
			moved[c] = true
			c.box.x += dx
		}
	}
	b.area.x += dx
	b.area.y += dy
}

// laneAbove returns the height at which links run along the top of a block's shelf.
func (b *block) laneAbove() float64 { return b.top - laneHeight/2 }
