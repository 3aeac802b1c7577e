package routing

import (
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/switches"
)

// neighbour is what a port of a switch leads to.
type neighbour struct {
	port int // of the near side
	node int
	far  int // port of the far side
}

// Table is what the switch at a node needs to forward packets.
type Table struct {
	Node       int
	Forwarding switches.Table
	Routing    *switches.Routing // nil for a plain switch
}

// Tables computes the tables of the switches among the nodes that of selects: all
// shortest paths to each endpoint, with static routes in place of some, and the
// tree for flooded packets. To plain switches, routers are endpoints like hosts;
// routers have other tables. Links that are not usable are left out; if usable is
// nil, all links are used.
func (t *Topology) Tables(of func(node int) bool, usable func(link int) bool) []Table {
	c := newTables(t, of, usable)
	c.unicast()
	c.static()
	c.tree()
	var all []Table
	for n, b := range c.of {
		if b != nil {
			all = append(all, Table{Node: n, Forwarding: b.table})
		}
	}
	return append(all, c.routed(of)...)
}

// tables is the state of one computation of tables.
type tables struct {
	*Topology
	usable   func(link int) bool
	adjacent [][]neighbour   // by node
	of       []*tableBuilder // by node; nil for nodes that get no table of a plain switch
}

func newTables(topology *Topology, of func(node int) bool, usable func(link int) bool) *tables {
	p := topology.plan
	t := &tables{Topology: topology, usable: usable, adjacent: make([][]neighbour, len(p.Nodes)), of: make([]*tableBuilder, len(p.Nodes))}
	for i, l := range p.Links {
		if !t.isUsable(i) {
			continue
		}
		for d, e := range l.Ends {
			far := l.Ends[1-d]
			t.adjacent[e.Node] = append(t.adjacent[e.Node], neighbour{e.Port, far.Node, far.Port})
		}
	}
	for n := range p.Nodes {
		if t.isPlain(n) && of(n) {
			t.of[n] = newTableBuilder(len(p.Nodes[n].Ports), len(t.Endpoints))
		}
	}
	return t
}

func (t *tables) isUsable(link int) bool { return t.usable == nil || t.usable(link) }

// tableBuilder collects a switch's table; equal groups are stored once.
type tableBuilder struct {
	table  switches.Table
	groups map[string]uint16
}

func newTableBuilder(ports, endpoints int) *tableBuilder {
	return &tableBuilder{
		table:  switches.Table{Route: make([]uint16, endpoints), Groups: [][]uint16{nil}, Static: []bool{false}, Tree: make([]bool, ports), Trunk: make([]bool, ports)},
		groups: map[string]uint16{},
	}
}

// group returns the number of the group of these ports.
func (b *tableBuilder) group(ports []uint16) uint16 { return b.number(ports, false) }

// staticGroup is group for the ports of a static route.
func (b *tableBuilder) staticGroup(ports []uint16) uint16 { return b.number(ports, true) }

func (b *tableBuilder) number(ports []uint16, static bool) uint16 {
	key := make([]byte, 0, 2*len(ports)+1)
	for _, p := range ports {
		key = append(key, byte(p>>8), byte(p))
	}
	if static {
		key = append(key, 1)
	}
	if g, ok := b.groups[string(key)]; ok {
		return g
	}
	g := uint16(len(b.table.Groups))
	b.groups[string(key)] = g
	b.table.Groups = append(b.table.Groups, append([]uint16(nil), ports...))
	b.table.Static = append(b.table.Static, static)
	return g
}

// unicast finds the shortest paths by breadth-first search from each switch
// that has endpoints; all endpoints at one switch share its search.
func (t *tables) unicast() {
	endpointsAt := make([][]int, len(t.plan.Nodes)) // by switch
	for id, e := range t.Endpoints {
		for _, a := range t.adjacent[e.Node] {
			if a.port != e.Port || !t.isPlain(a.node) {
				continue
			}
			endpointsAt[a.node] = append(endpointsAt[a.node], id)
			if b := t.of[a.node]; b != nil {
				b.table.Route[id] = b.group([]uint16{uint16(a.far)})
			}
		}
	}
	distance := make([]int, len(t.plan.Nodes))
	var ports []uint16
	for root, endpoints := range endpointsAt {
		if len(endpoints) == 0 {
			continue
		}
		for i := range distance {
			distance[i] = -1
		}
		distance[root] = 0
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			n := queue[0]
			for _, a := range t.adjacent[n] {
				if distance[a.node] < 0 && t.isPlain(a.node) {
					distance[a.node] = distance[n] + 1
					queue = append(queue, a.node)
				}
			}
		}
		for n, b := range t.of {
			if b == nil || distance[n] <= 0 {
				continue
			}
			ports = ports[:0]
			for _, a := range t.adjacent[n] {
				if distance[a.node] == distance[n]-1 { // so it is plain
					ports = append(ports, uint16(a.port))
				}
			}
			g := b.group(ports)
			for _, id := range endpoints {
				b.table.Route[id] = g
			}
		}
	}
}

// static replaces computed paths by static routes. A route uses those of its
// ports whose links are usable. If there are none, the route is ignored, and
// the next wider one or the computed paths apply.
func (t *tables) static() {
	for n, b := range t.of {
		if b == nil {
			continue
		}
		for _, r := range t.plan.Nodes[n].Static {
			var alive []plan.NextHop
			for _, w := range r.Via {
				if l := t.plan.Nodes[n].Ports[w.Port].Link; l >= 0 && t.isUsable(l) {
					alive = append(alive, w)
				}
			}
			if len(alive) == 0 {
				continue
			}
			g := b.staticGroup(replicate(alive))
			for _, to := range r.Stations {
				b.table.Route[t.Endpoint(to)] = g
			}
		}
	}
}

// replicate lists each next hop as often as its weight requires (WCMP: Zhou et al.,
// EuroSys 2014, §3), in the fewest copies that keep the proportions. Copies of
// one are spread out, so that round-robin does not send bursts: each turn
// goes to the one that lags most behind its share, or to the first one of
// several.
func replicate(hops []plan.NextHop) []uint16 {
	divisor, sum := 0, 0
	for _, h := range hops {
		divisor, sum = gcd(divisor, h.Weight), sum+h.Weight
	}
	lag := make([]int, len(hops))
	ports := make([]uint16, sum/divisor)
	for i := range ports {
		next := 0
		for j, h := range hops {
			if lag[j] += h.Weight; lag[j] > lag[next] {
				next = j
			}
		}
		lag[next] -= sum
		ports[i] = uint16(hops[next].Port)
	}
	return ports
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// tree sets the tree for flooded packets, and the way along it to every endpoint.
func (t *tables) tree() {
	parent := t.spanningTree()
	attached := make([]neighbour, len(t.Endpoints)) // the port of a plain switch, in far
	for id, e := range t.Endpoints {
		attached[id].node = -1
		for _, a := range t.adjacent[e.Node] {
			if a.port == e.Port && t.isPlain(a.node) {
				attached[id] = a
			}
		}
	}
	for n, b := range t.of {
		if b == nil {
			continue
		}
		for _, a := range t.adjacent[n] {
			b.table.Trunk[a.port] = t.isPlain(a.node)
		}
		b.table.Branch = func(e packet.Endpoint) int {
			return branch(parent, n, attached[e])
		}
	}
}

// branch returns the port of a switch that leads along the tree to where an endpoint is
// attached; -1 if none does. parent is the link of each switch to its parent.
func branch(parent []*neighbour, sw int, at neighbour) int {
	if at.node == sw {
		return at.far
	}
	if at.node < 0 {
		return -1
	}
	root := at.node
	for up := parent[root]; up != nil; up = parent[root] {
		if up.node == sw {
			return up.far
		}
		root = up.node
	}
	top := sw
	for up := parent[top]; up != nil; up = parent[top] {
		top = up.node
	}
	if top != root || parent[sw] == nil {
		return -1
	}
	return parent[sw].port
}

// spanningTree spans the switches of each connected part with a tree, breadth first
// from its first switch, and adds the ports of hosts and routers. Branches that
// lead to neither are cut: packets on them would only be discarded. It returns the link of
// each switch to its parent, nil for the first of a part.
func (t *tables) spanningTree() []*neighbour {
	parent := make([]*neighbour, len(t.plan.Nodes)) // link to the parent in the tree
	wanted := make([]bool, len(t.plan.Nodes))       // hosts or routers are at it or behind it
	seen := make([]bool, len(t.plan.Nodes))
	branch := func(node, port int) {
		if b := t.of[node]; b != nil {
			b.table.Tree[port] = true
		}
	}
	var order []int
	for root := range t.plan.Nodes {
		if !t.isPlain(root) || seen[root] {
			continue
		}
		seen[root] = true
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			n := queue[0]
			order = append(order, n)
			for _, a := range t.adjacent[n] {
				switch {
				case !t.isPlain(a.node):
					branch(n, a.port)
					wanted[n] = true
				case !seen[a.node]:
					seen[a.node] = true
					parent[a.node] = &neighbour{port: a.far, node: n, far: a.port}
					queue = append(queue, a.node)
				}
			}
		}
	}
	// Children come after their parents in order, so in reverse order every
	// switch knows of all hosts and routers behind it.
	for _, n := range slices.Backward(order) {
		if up := parent[n]; up != nil && wanted[n] {
			branch(n, up.port)
			branch(up.node, up.far)
			wanted[up.node] = true
		}
	}
	return parent
}
