package graph

import (
	"math"
	"slices"
	"unicode/utf8"
)

// Sizes in the drawing, in pixels at its natural scale.
const (
	nameSize    = 13.0 // of fonts
	smallSize   = 10.5
	hostHeight  = 36.0   // of nodes with addresses
	otherHeight = 30.0   // of others
	gap         = 14.0   // between neighbours
	rowWidth    = 1000.0 // beyond which hosts are stacked
	indent      = 16.0   // of stacked hosts, for their links
)

// box is a rectangle around its centre.
type box struct{ x, y, w, h float64 }

func (b box) left() float64   { return b.x - b.w/2 }
func (b box) right() float64  { return b.x + b.w/2 }
func (b box) top() float64    { return b.y - b.h/2 }
func (b box) bottom() float64 { return b.y + b.h/2 }

func (b box) overlaps(c box) bool {
	return math.Abs(b.x-c.x) < (b.w+c.w)/2 && math.Abs(b.y-c.y) < (b.h+c.h)/2
}

// textWidth estimates the width of a text in the usual sans-serif fonts.
func textWidth(s string, size float64) float64 {
	return 0.58 * size * float64(utf8.RuneCountInString(s))
}

// column is one place of a row: a node, or stacked hosts whose links share a
// line along their left.
type column struct {
	nodes  []int
	anchor int // the switch that is the hosts' only neighbour, -1 if there is none
	stack  bool
	alone  bool // the only stack of its anchor
	box    box
}

// trunkX returns the x at which the links of a stack come down.
func (c *column) trunkX() float64 { return c.box.left() + 6 }

// preferredX returns the x that the column's neighbours in other rows should be
// near. The switch of a single stack is drawn so that the trunk hangs straight
// down.
func (c *column) preferredX() float64 {
	if c.alone {
		return c.trunkX() + indent
	}
	return c.box.x
}

// layout is rows with a place for each node.
type layout struct {
	*rows
	labels  []string // by link
	boxes   []box    // by node
	columns []*column
	drop    float64 // from row to row of switches
	folded  *folded // nil in a drawing that is not too wide
}

func newLayout(r *rows, labels []string) *layout {
	l := &layout{rows: r, labels: labels, boxes: make([]box, len(r.Nodes)), columns: make([]*column, len(r.Nodes))}
	l.measureBoxes()
	l.layRows()
	l.foldOntoShelves()
	return l
}

// layRows gives every node its place in its row.
func (l *layout) layRows() {
	hosts := l.hostColumns()
	spreadColumns(hosts)
	width := 0.0
	for t := 1; t < len(l.order); t++ {
		row := l.switchRow(t, width)
		if t == 1 {
			// Leaves that need more room than their hosts move the hosts.
			l.alignWithNeighbours(hosts, 1)
			spreadColumns(hosts)
		}
		width = max(width, widthOfRow(hosts), widthOfRow(row))
	}
	l.drop = min(max(width/9, 80), 240)
	l.placeBoxes()
}

// switchRow puts the switches of row t above the row below, which has the given width.
func (l *layout) switchRow(t int, width float64) (row []*column) {
	for _, n := range l.order[t] {
		c := &column{nodes: []int{n}, anchor: -1, box: l.boxes[n]}
		// Rows above the leaves spread over most of the width, so that their
		// links do not all run to the middle.
		c.box.w = max(c.box.w+l.levelGap(t), 0.75*width/float64(len(l.order[t])))
		row = append(row, c)
		l.columns[n] = c
	}
	l.alignWithNeighbours(row, t-1)
	spreadColumns(row)
	return row
}

// measureBoxes gives all hosts the size of the largest host, and all switches the size of
// the largest switch.
func (l *layout) measureBoxes() {
	host, other := box{w: 44, h: otherHeight}, box{w: 60, h: otherHeight}
	for n, node := range l.Nodes {
		size := &other
		if l.isHost(n) {
			size = &host
		}
		size.w = max(size.w, textWidth(node.Name, nameSize)+16)
		if a := addressOf(node); a != "" {
			size.w, size.h = max(size.w, textWidth(a, smallSize)+14), hostHeight
		}
	}
	for n := range l.Nodes {
		if l.boxes[n] = other; l.isHost(n) {
			l.boxes[n] = host
		}
	}
}

// hostColumns puts the hosts side by side if that is not too wide. Otherwise it
// stacks the hosts of each switch as far as necessary.
func (l *layout) hostColumns() []*column {
	var runs [][]int
	deepest := 1
	for i, n := range l.order[0] {
		if i == 0 || l.anchorOf(n) < 0 || l.anchorOf(n) != l.anchorOf(l.order[0][i-1]) {
			runs = append(runs, nil)
		}
		last := &runs[len(runs)-1]
		*last = append(*last, n)
		deepest = max(deepest, len(*last))
	}
	limit := max(rowWidth, 100*math.Sqrt(float64(len(l.order[0]))))
	for depth := 1; ; depth++ {
		columns := l.cutIntoColumns(runs, depth)
		width := 0.0
		for _, c := range columns {
			width += c.box.w
		}
		if width <= limit || depth >= deepest {
			return columns
		}
	}
}

// cutIntoColumns makes columns of runs of hosts, about equally deep within a run.
func (l *layout) cutIntoColumns(runs [][]int, depth int) (columns []*column) {
	apart := l.levelGap(0)
	for _, run := range runs {
		count := (len(run) + depth - 1) / depth
		for i := range count {
			c := &column{nodes: run[i*len(run)/count : (i+1)*len(run)/count], anchor: l.anchorOf(run[0])}
			c.stack = depth > 1 && len(run) > 1
			c.alone = c.stack && count == 1
			if room := l.labelRoom(c); c.stack {
				c.box.w = l.boxes[c.nodes[0]].w + gap + indent + room
			} else {
				c.box.w = max(l.boxes[c.nodes[0]].w+apart, room)
			}
			for _, n := range c.nodes {
				l.columns[n] = c
			}
			columns = append(columns, c)
		}
	}
	return columns
}

// anchorOf returns the switch that a host is linked to, -1 unless that is its only link.
func (l *layout) anchorOf(n int) int {
	if len(l.neighbours[n]) != 1 || l.isHost(l.neighbours[n][0]) {
		return -1
	}
	return l.neighbours[n][0]
}

// labelRoom returns the width of the labels of links to a column's hosts.
func (l *layout) labelRoom(c *column) (width float64) {
	for _, n := range c.nodes {
		for _, p := range l.Nodes[n].Ports {
			if p.Link >= 0 && l.labels[p.Link] != "" {
				width = max(width, labelBox(l.labels[p.Link]).w+gap)
			}
		}
	}
	return width
}

// levelGap returns the room that links within a row need between its nodes.
func (l *layout) levelGap(t int) float64 {
	width := gap
	for i, link := range l.Links {
		if l.isLevel(link) && l.tier[link.Ends[0].Node] == t {
			width = max(width, 3*gap, labelBox(l.labels[i]).w+2*gap)
		}
	}
	return width
}

// alignWithNeighbours sets the wanted place of each column: below or above the middle of its
// neighbours in row t. One without any goes with the column on its left.
func (l *layout) alignWithNeighbours(row []*column, t int) {
	for i, c := range row {
		sum, count := 0.0, 0.0
		for _, n := range c.nodes {
			for _, m := range l.neighbours[n] {
				if l.tier[m] == t {
					sum += l.columns[m].preferredX()
					count++
				}
			}
		}
		if count > 0 {
			c.box.x += sum/count - c.preferredX()
		} else if i > 0 {
			c.box.x = row[i-1].box.x
		}
	}
}

// spreadColumns moves columns so that they do not overlap and keep their order, and
// otherwise as little as possible: it minimises the sum of squares of the
// moves.
func spreadColumns(row []*column) {
	// Without the room that the columns themselves take, the result is the
	// nearest non-decreasing sequence. Pooling adjacent violators finds it: a
	// block that begins left of its predecessor joins it.
	type block struct {
		mean  float64
		count int
	}
	var blocks []block
	at := 0.0
	room := make([]float64, len(row))
	for i, c := range row {
		if i > 0 {
			at += (row[i-1].box.w + c.box.w) / 2
			if row[i-1].anchor != c.anchor || c.anchor < 0 {
				at += gap
			}
		}
		room[i] = at
		b := block{c.box.x - at, 1}
		for len(blocks) > 0 && blocks[len(blocks)-1].mean >= b.mean {
			a := blocks[len(blocks)-1]
			blocks = blocks[:len(blocks)-1]
			count := a.count + b.count
			b = block{(a.mean*float64(a.count) + b.mean*float64(b.count)) / float64(count), count}
		}
		blocks = append(blocks, b)
	}
	i := 0
	for _, b := range blocks {
		for range b.count {
			row[i].box.x = b.mean + room[i]
			i++
		}
	}
}

// widthOfRow returns the width of a row.
func widthOfRow(row []*column) float64 {
	if len(row) == 0 {
		return 0
	}
	return row[len(row)-1].box.right() - row[0].box.left()
}

// placeBoxes puts the boxes where their columns are.
func (l *layout) placeBoxes() {
	y := 0.0
	for t, row := range slices.Backward(l.order) {
		for _, n := range row {
			c := l.columns[n]
			b := &l.boxes[n]
			b.x, b.y = c.box.x, y+b.h/2
			if c.stack {
				b.x = c.box.right() - gap/2 - b.w/2
				b.y += float64(slices.Index(c.nodes, n)) * (b.h + gap/2)
			}
		}
		if t > 0 {
			y += l.boxes[row[0]].h + l.drop
		}
		if t == 1 {
			// Hosts are right below their switches, however wide the lab.
			y += min(l.drop, 110) - l.drop
		}
	}
}
