// Package graph draws the topology of a lab: as Graphviz DOT, and as SVG
// without any other program.
package graph

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
)

// rows is a plan in rows: hosts in row 0, and each switch in the row of its
// distance from the nearest host. No link spans more than one row, because
// the nodes that it joins differ in distance by one at most.
type rows struct {
	*plan.Plan
	neighbours [][]int // by node: the node at the far end of each of its links
	tier       []int   // by node: its row
	order      [][]int // by row: its nodes, left to right
	place      []int   // by node: its index in its row
}

func newRows(p *plan.Plan) *rows {
	r := &rows{Plan: p, neighbours: make([][]int, len(p.Nodes)), place: make([]int, len(p.Nodes))}
	for _, l := range p.Links {
		a, b := l.Ends[0].Node, l.Ends[1].Node
		r.neighbours[a] = append(r.neighbours[a], b)
		r.neighbours[b] = append(r.neighbours[b], a)
	}
	r.measureTiers()
	r.order = make([][]int, slices.Max(append(r.tier, 0))+1)
	for n, t := range r.tier {
		r.order[t] = append(r.order[t], n)
	}
	r.arrangeRows()
	return r
}

// measureTiers finds the distance of every node from the hosts. Switches that no
// host reaches count as leaves.
func (r *rows) measureTiers() {
	r.tier = make([]int, len(r.Nodes))
	var reached []int
	for n := range r.Nodes {
		if r.isHost(n) {
			reached = append(reached, n)
		}
	}
	for len(reached) > 0 {
		n := reached[0]
		reached = reached[1:]
		for _, m := range r.neighbours[n] {
			if r.tier[m] == 0 && !r.isHost(m) {
				r.tier[m] = r.tier[n] + 1
				reached = append(reached, m)
			}
		}
	}
	for n := range r.Nodes {
		if !r.isHost(n) {
			r.tier[n] = max(r.tier[n], 1)
		}
	}
}

func (r *rows) isHost(n int) bool { return r.Nodes[n].Kind == plan.Host }

// isLevel reports whether a link stays within a row.
func (r *rows) isLevel(l plan.Link) bool { return r.tier[l.Ends[0].Node] == r.tier[l.Ends[1].Node] }

// higherEnd returns the end of a link that is in the higher row or, if the link is
// level, on the left.
func (r *rows) higherEnd(l plan.Link) int {
	a, b := l.Ends[0].Node, l.Ends[1].Node
	if cmp.Or(cmp.Compare(r.tier[b], r.tier[a]), cmp.Compare(r.place[a], r.place[b])) <= 0 {
		return 0
	}
	return 1
}

// addressOf returns the address that a node is drawn with: its first IPv4
// address, or its first address if it has no IPv4 address. A router's own
// addresses come before those of its ports. It is empty if there is none.
func addressOf(n plan.Node) string {
	var all []netip.Addr
	if n.Router != nil {
		all = append(all, n.Router.Addresses...)
	}
	for _, p := range n.Ports {
		for _, a := range p.Addresses {
			all = append(all, a.Addr())
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[max(slices.IndexFunc(all, netip.Addr.Is4), 0)].String()
}
