package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// bus is links of a folded drawing that share lines: those between switches above the shelves and
// nodes on them, if each of these switches has a link to each of these nodes. They are drawn as in
// a circuit diagram: a line along the switches, from which one comes down to each node.
type bus struct {
	number int     // from the top
	y      float64 // of the line below the switches
	x      float64 // of the switches, on average
	links  []int
}

// Limits of what is drawn as buses: more cannot be told apart, and fewer links need none.
const (
	maxBuses    = 16
	minBusLinks = 4 // of each bus, on average
)

// Room for buses.
const busGap = 8.0 // in channels

// busColours tell buses that are near each other apart, also for readers who confuse red and green
// (Okabe and Ito).
var busColours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9"}

func (b *bus) lineColour() string { return busColours[b.number%len(busColours)] }

// findBuses finds the buses of a folded drawing, from the links that cross between the rows above
// and the blocks.
func (l *layout) findBuses() {
	f := l.folded
	below := map[int][]int{} // by switch above: its nodes on shelves
	links := map[int][]int{}
	count := 0
	for i, link := range l.Links {
		first := l.higherEnd(link)
		up, down := link.Ends[first].Node, link.Ends[1-first].Node
		if f.of[up] == nil && f.of[down] != nil {
			below[up] = append(below[up], down)
			links[up] = append(links[up], i)
			count++
		}
	}
	found := map[string]*bus{}
	var all []*bus
	for _, row := range l.order {
		for _, n := range row {
			if len(below[n]) == 0 {
				continue
			}
			slices.Sort(below[n])
			key := fmt.Sprint(below[n])
			if found[key] == nil {
				found[key] = &bus{}
				all = append(all, found[key])
			}
			b := found[key]
			b.links = append(b.links, links[n]...)
		}
	}
	if len(all) == 0 || len(all) > maxBuses || count < minBusLinks*len(all) {
		return
	}
	f.buses, f.busOf = all, map[int]*bus{}
	for k, b := range all {
		b.number = k
		for _, i := range b.links {
			f.busOf[i] = b
		}
	}
	f.channelWidth += busGap * float64(len(all))
}

// placeBuses spreads the lines of buses between the switches above and the first shelf.
func (l *layout) placeBuses() {
	f := l.folded
	top, bottom := math.Inf(-1), math.Inf(1)
	for _, b := range f.buses {
		sum := 0.0
		for _, i := range b.links {
			link := l.Links[i]
			up := link.Ends[l.higherEnd(link)].Node
			sum += l.boxes[up].x
			top = max(top, l.boxes[up].bottom())
		}
		b.x = sum / float64(len(b.links))
	}
	for _, b := range f.blocks {
		bottom = min(bottom, b.top)
	}
	// The line of those on the left is the lowest, so that few cross on their way down.
	slices.SortFunc(f.buses, func(a, b *bus) int { return cmp.Compare(b.x, a.x) })
	for k, b := range f.buses {
		b.number = k
		b.y = top + (bottom-top)*float64(k+1)/float64(len(f.buses)+1)
	}
}

// busAt returns where a bus passes a block: the x of its line in the channel beside the block, and
// the y of its line above the block's shelf.
func (f *folded) busAt(b *bus, to *block) (x, y float64) {
	return to.channel - f.channelWidth/2 + busGap*float64(b.number+1), to.top - laneHeight + laneHeight*0.8*float64(b.number+1)/float64(len(f.buses)+1)
}

// busLine returns the corners of a link of a bus, from a switch above to a node of a block.
func (f *folded) busLine(b *bus, from, to point, low *block) []point {
	if low.shelf == 0 {
		return []point{from, {from.x, b.y}, {to.x, b.y}, to}
	}
	x, y := f.busAt(b, low)
	return []point{from, {from.x, b.y}, {x, b.y}, {x, y}, {to.x, y}, to}
}

// findJoints returns where lines of a bus meet: the corners of all its links, without duplicates.
func (b *bus) findJoints(lines []line) (at []point) {
	seen := map[point]bool{}
	for _, i := range b.links {
		p := lines[i].points
		for _, q := range p[1 : len(p)-1] {
			q = point{math.Round(10*q.x) / 10, math.Round(10*q.y) / 10}
			if !seen[q] {
				seen[q] = true
				at = append(at, q)
			}
		}
	}
	return at
}
