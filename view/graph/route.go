package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/weftlab/weft/emu/plan"
)

type point struct{ x, y float64 }

func pointBetween(a, b point, t float64) point { return point{a.x + t*(b.x-a.x), a.y + t*(b.y-a.y)} }

// line is how a link is drawn: a straight line, one with corners, or a
// quadratic Bézier curve if bent.
type line struct {
	points []point
	bent   bool
}

// pointAt returns a point of the curve, or of the last straight piece.
func (l line) pointAt(t float64) point {
	p := l.points
	last := pointBetween(p[len(p)-2], p[len(p)-1], t)
	if l.bent {
		return pointBetween(pointBetween(p[0], p[1], t), last, t)
	}
	return last
}

// pointsAlong returns points on the line, close enough to be joined by straight lines.
func (l line) pointsAlong() []point {
	if !l.bent {
		return l.points
	}
	return []point{l.points[0], l.pointAt(0.25), l.pointAt(0.5), l.pointAt(0.75), l.points[2]}
}

// The sides of a box.
const (
	top = iota
	bottom
	left
	right
)

// plug is where an end of a link meets a box.
type plug struct {
	link, end, node int
	side            int
	toward          float64 // where the link goes along this side
	stack           *column // the stack that the link goes to; its links share a place
	bus             *bus    // of the link; its links share a place
}

// drawLinks draws the links. The ends at one side of a box are spread along it.
func (l *layout) drawLinks() []line {
	var plugs []plug
	for i, link := range l.Links {
		first := l.higherEnd(link)
		for end, e := range link.Ends {
			far := link.Ends[1-end].Node
			p := plug{link: i, end: end, node: e.Node, side: bottom, toward: l.columns[far].box.x}
			switch {
			case l.busOf(i) != nil:
				p.bus = l.busOf(i)
				p.toward = float64(p.bus.number)
				if end != first {
					p.side = top
				}
			case l.leavesBlock(link):
				p.side, p.toward = l.plugOf(e.Node, far)
			case l.isLevel(link) && l.isAdjacent(i):
				p.toward = 0
				if p.side = right; end != first {
					p.side = left
				}
			case l.isLevel(link) && !l.isHost(e.Node), !l.isLevel(link) && end != first:
				p.side = top
			case l.columns[far].stack:
				p.stack = l.columns[far]
				p.toward = p.stack.trunkX()
			}
			plugs = append(plugs, p)
		}
	}
	slices.SortFunc(plugs, func(a, b plug) int {
		return cmp.Or(a.node-b.node, a.side-b.side, cmp.Compare(a.toward, b.toward), a.link-b.link)
	})
	ends := make([][2]point, len(l.Links))
	for len(plugs) > 0 {
		n := 1
		for n < len(plugs) && plugs[n].node == plugs[0].node && plugs[n].side == plugs[0].side {
			n++
		}
		l.fitPlugs(plugs[:n], ends)
		plugs = plugs[n:]
	}
	lines := make([]line, len(ends))
	for i := range ends {
		lines[i] = l.drawLink(i, ends[i])
	}
	return lines
}

// isAdjacent reports whether nothing stands between the ends of a level link.
func (l *layout) isAdjacent(link int) bool {
	ends := l.Links[link].Ends
	d := l.place[ends[0].Node] - l.place[ends[1].Node]
	return d == 1 || d == -1
}

// fitPlugs places the plugs at one side of a box.
func (l *layout) fitPlugs(plugs []plug, ends [][2]point) {
	slot := make([]int, len(plugs))
	for i := 1; i < len(plugs); i++ {
		slot[i] = slot[i-1]
		if (plugs[i].stack == nil || plugs[i].stack != plugs[i-1].stack) && (plugs[i].bus == nil || plugs[i].bus != plugs[i-1].bus) {
			slot[i]++
		}
	}
	b := l.boxes[plugs[0].node]
	for i, p := range plugs {
		share := float64(slot[i]+1) / float64(slot[len(slot)-1]+2)
		at := point{b.left() + share*b.w, b.top()}
		switch p.side {
		case bottom:
			at.y = b.bottom()
			// The line to a stack right below is vertical.
			if p.stack != nil && math.Abs(p.toward-b.x) < b.w/2-4 {
				at.x = p.toward
			}
		case left:
			at = point{b.left(), b.top() + share*b.h}
		case right:
			at = point{b.right(), b.top() + share*b.h}
		}
		ends[p.link][p.end] = at
	}
}

// drawLink draws a link between two points.
func (l *layout) drawLink(i int, ends [2]point) line {
	link := l.Links[i]
	first := l.higherEnd(link)
	a, b := ends[first], ends[1-first]
	low := link.Ends[1-first].Node
	switch c := l.columns[low]; {
	case l.busOf(i) != nil:
		return line{l.folded.busLine(l.busOf(i), a, b, l.folded.of[low]), false}
	case l.leavesBlock(link):
		return line{l.routeAround(a, b, link.Ends[first].Node, low), false}
	case l.isLevel(link) && !l.isAdjacent(i):
		// An arc over the nodes between, or below them for hosts.
		height := min(20+0.12*(b.x-a.x), 0.75*l.drop)
		if !l.isHost(low) {
			height = -height
		}
		return line{[]point{a, {(a.x + b.x) / 2, a.y + 2*height}, b}, true}
	case !l.isLevel(link) && c.stack:
		host := l.boxes[low]
		start := l.boxes[c.nodes[0]].top() - gap
		return line{[]point{a, {c.trunkX(), start}, {c.trunkX(), host.y}, {host.left(), host.y}}, false}
	}
	return line{[]point{a, b}, false}
}

// busOf returns the bus of a link, nil if it has none.
func (l *layout) busOf(link int) *bus {
	if l.folded == nil {
		return nil
	}
	return l.folded.busOf[link]
}

// blocksOf returns the blocks that two nodes belong to.
func (l *layout) blocksOf(a, b int) (*block, *block) {
	if l.folded == nil {
		return nil, nil
	}
	return l.folded.of[a], l.folded.of[b]
}

// leavesBlock reports whether a link leaves its block.
func (l *layout) leavesBlock(link plan.Link) bool {
	a, b := l.blocksOf(link.Ends[0].Node, link.Ends[1].Node)
	return a != b
}

// plugOf returns the side of a node at which a link to another block leaves, and where
// it goes from there.
func (l *layout) plugOf(n, far int) (side int, toward float64) {
	from, to := l.blocksOf(n, far)
	switch {
	case from == nil && to.shelf > 0:
		return bottom, to.channel
	case from == nil:
		return bottom, l.boxes[far].x
	case to == nil && from.shelf == 0:
		return top, l.boxes[far].x
	}
	return top, from.channel
}

// routeAround returns the points of a link between blocks: through the channels beside
// them and the lanes above them. A link between the rows above and the first shelf
// is straight.
func (l *layout) routeAround(a, b point, from, to int) []point {
	one, other := l.blocksOf(from, to)
	switch {
	case one == nil && other.shelf == 0, other == nil && one.shelf == 0:
		return []point{a, b}
	case one == nil:
		return []point{a, {other.channel, l.folded.blocks[0].laneAbove()}, {other.channel, other.laneAbove()}, b}
	case other == nil:
		return []point{a, {one.channel, one.laneAbove()}, {one.channel, l.folded.blocks[0].laneAbove()}, b}
	}
	return []point{a, {a.x, one.laneAbove()}, {other.channel, one.laneAbove()}, {other.channel, other.laneAbove()}, {b.x, other.laneAbove()}, b}
}
