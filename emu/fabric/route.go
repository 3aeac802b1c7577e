package fabric

import (
	"slices"

	"github.com/weftlab/weft/switches"
)

// neighbour is what a port of a switch leads to.
type neighbour struct {
	port int // of the near side
	node int
	far  int // port of the far side
}

// route gives every switch its table: to each endpoint all shortest ways, and
// the tree for what goes to everybody. Routers, which have no such table, are
// endpoints as hosts are.
func (f *Fabric) route() {
	adjacent := make([][]neighbour, len(f.Plan.Nodes))
	for _, l := range f.Plan.Links {
		for d, e := range l.Ends {
			far := l.Ends[1-d]
			adjacent[e.Node] = append(adjacent[e.Node], neighbour{e.Port, far.Node, far.Port})
		}
	}
	tables := make([]*tableBuilder, len(f.Plan.Nodes))
	for n, sw := range f.Switches {
		if f.isPlain(n) {
			tables[n] = newTableBuilder(len(sw.Ports), len(f.endpoints))
		}
	}
	f.routeUnicast(adjacent, tables)
	f.routeTree(adjacent, tables)
	for n, t := range tables {
		if t != nil {
			f.Switches[n].SetTable(t.table)
		}
	}
	f.routeRouters(adjacent)
}

// isPlain tells whether a node is a switch and no router.
func (f *Fabric) isPlain(node int) bool {
	return f.Switches[node] != nil && f.Plan.Nodes[node].Router == nil
}

// tableBuilder collects a switch's table; equal groups are kept once.
type tableBuilder struct {
	table  switches.Table
	groups map[string]uint16
}

func newTableBuilder(ports, stations int) *tableBuilder {
	return &tableBuilder{
		table:  switches.Table{Route: make([]uint16, stations), Groups: [][]uint16{nil}, Tree: make([]bool, ports)},
		groups: map[string]uint16{},
	}
}

// group gives the number of the group of these ports.
func (b *tableBuilder) group(ports []uint16) uint16 {
	key := make([]byte, 0, 2*len(ports))
	for _, p := range ports {
		key = append(key, byte(p>>8), byte(p))
	}
	if g, ok := b.groups[string(key)]; ok {
		return g
	}
	g := uint16(len(b.table.Groups))
	b.groups[string(key)] = g
	b.table.Groups = append(b.table.Groups, append([]uint16(nil), ports...))
	return g
}

// routeUnicast finds the shortest ways by breadth-first search from each
// switch that has stations; all stations at one switch share its search.
func (f *Fabric) routeUnicast(adjacent [][]neighbour, tables []*tableBuilder) {
	stationsAt := make([][]int, len(f.Plan.Nodes)) // by switch
	for id, e := range f.endpoints {
		for _, a := range adjacent[e.Node] {
			if a.port == e.Port && tables[a.node] != nil {
				stationsAt[a.node] = append(stationsAt[a.node], id)
				tables[a.node].table.Route[id] = tables[a.node].group([]uint16{uint16(a.far)})
			}
		}
	}
	distance := make([]int, len(f.Plan.Nodes))
	var ports []uint16
	for root, stations := range stationsAt {
		if len(stations) == 0 {
			continue
		}
		for i := range distance {
			distance[i] = -1
		}
		distance[root] = 0
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			n := queue[0]
			for _, a := range adjacent[n] {
				if tables[a.node] != nil && distance[a.node] < 0 {
					distance[a.node] = distance[n] + 1
					queue = append(queue, a.node)
				}
			}
		}
		for n, t := range tables {
			if t == nil || distance[n] <= 0 {
				continue
			}
			ports = ports[:0]
			for _, a := range adjacent[n] {
				if tables[a.node] != nil && distance[a.node] == distance[n]-1 {
					ports = append(ports, uint16(a.port))
				}
			}
			g := t.group(ports)
			for _, id := range stations {
				t.table.Route[id] = g
			}
		}
	}
}

// routeTree spans the switches of each connected part with a tree, breadth
// first from its first switch, and adds the ports of hosts and routers. Branches that lead
// to no host are cut: what travels there would only be thrown away.
func (f *Fabric) routeTree(adjacent [][]neighbour, tables []*tableBuilder) {
	parent := make([]*neighbour, len(f.Plan.Nodes)) // how a switch hangs in the tree, seen from it
	wanted := make([]bool, len(f.Plan.Nodes))       // hosts are at it or behind it
	seen := make([]bool, len(f.Plan.Nodes))
	var order []int
	for root, t := range tables {
		if t == nil || seen[root] {
			continue
		}
		seen[root] = true
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			n := queue[0]
			order = append(order, n)
			for _, a := range adjacent[n] {
				switch {
				case tables[a.node] == nil: // a host or a router
					tables[n].table.Tree[a.port] = true
					wanted[n] = true
				case !seen[a.node]:
					seen[a.node] = true
					parent[a.node] = &neighbour{port: a.far, node: n, far: a.port}
					queue = append(queue, a.node)
				}
			}
		}
	}
	// Children come after their parents in order, so from the end every
	// switch knows of all hosts behind it.
	for _, n := range slices.Backward(order) {
		if up := parent[n]; up != nil && wanted[n] {
			tables[n].table.Tree[up.port] = true
			tables[up.node].table.Tree[up.far] = true
			wanted[up.node] = true
		}
	}
}
