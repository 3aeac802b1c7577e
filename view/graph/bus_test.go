package graph

import (
	"math"
	"testing"

	"github.com/weftlab/weft/emu/resolve"
)

// TestBuses_CoreLinksShareLines: the links of a folded fat-tree's core are drawn as a bus for each
// group of cores with the same neighbours: horizontal and vertical lines, which pass no box and lie
// on no line of another bus.
func TestBuses_CoreLinksShareLines(t *testing.T) {
	for _, c := range []struct {
		topology     string
		buses, links int // of each bus
	}{
		{"fat-tree: {k: 8}", 4, 4 * 8},
		{"fat-tree: {k: 16}", 8, 8 * 16},
		{"leaf-spine: {spines: 4, leaves: 256, hosts-per-leaf: 4}", 1, 4 * 256},
	} {
		p, err := resolve.Parse("lab.yaml", []byte("topology: {kinds: {host: {attach: none}}, generate: {"+c.topology+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		l := place(p)
		if l.folded == nil || len(l.folded.buses) != c.buses {
			t.Errorf("%s: not folded, or not %d buses", c.topology, c.buses)
			continue
		}
		lines := l.drawLinks()
		for _, b := range l.folded.buses {
			if len(b.links) != c.links {
				t.Errorf("%s: bus %d has %d links, not %d", c.topology, b.number, len(b.links), c.links)
			}
		}
		horizontal := map[float64]int{} // by y: the bus whose line is there
		for i, line := range lines {
			b := l.busOf(i)
			if b == nil {
				continue
			}
			for k := 1; k < len(line.points); k++ {
				from, to := line.points[k-1], line.points[k]
				if from.x != to.x && from.y != to.y {
					t.Fatalf("%s: link %d goes from %v to %v", c.topology, i, from, to)
				}
				if from.y == to.y && from.x != to.x {
					y := math.Round(from.y * 100)
					if other, ok := horizontal[y]; ok && other != b.number {
						t.Fatalf("%s: buses %d and %d share a line at y %g", c.topology, other, b.number, from.y)
					}
					horizontal[y] = b.number
				}
				for n, at := range l.boxes {
					if growBox(at, -0.5).meetsLine(from, to) {
						t.Fatalf("%s: link %d from %v to %v passes %s", c.topology, i, from, to, l.Nodes[n].Name)
					}
				}
			}
		}
	}
}

// TestBuses_NotForFewOrUnlikeLinks: links that share no ends stay lines of their own.
func TestBuses_NotForFewOrUnlikeLinks(t *testing.T) {
	for _, topology := range []string{"star: {hosts: 1024}", "parking-lot: {hops: 100}", "fat-tree: {k: 4}"} {
		p, err := resolve.Parse("lab.yaml", []byte("topology: {kinds: {host: {attach: none}}, generate: {"+topology+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		if l := place(p); l.folded != nil && len(l.folded.buses) > 0 {
			t.Errorf("%s has %d buses", topology, len(l.folded.buses))
		}
	}
}
