package routing

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/switches/router"
)

// area is a broadcast domain, given the links that are usable.
type area struct{ routers []plan.End }

// areas finds the areas, and returns the area number of every port of a host or
// router, by node and port; -1 if it leads nowhere.
func (t *tables) areas() (all []area, of [][]int) {
	of = make([][]int, len(t.plan.Nodes))
	for n := range t.plan.Nodes {
		of[n] = slices.Repeat([]int{-1}, len(t.plan.Nodes[n].Ports))
	}
	join := func(node, port int) {
		of[node][port] = len(all) - 1
		if t.plan.Nodes[node].Router != nil {
			a := &all[len(all)-1]
			a.routers = append(a.routers, plan.End{Node: node, Port: port})
		}
	}
	seen := make([]bool, len(t.plan.Nodes))
	for root := range t.plan.Nodes {
		if !t.isPlain(root) {
			for _, a := range t.adjacent[root] {
				if !t.isPlain(a.node) && of[root][a.port] < 0 { // no switch is between them
					all = append(all, area{})
					join(root, a.port)
					join(a.node, a.far)
				}
			}
			continue
		}
		if seen[root] {
			continue
		}
		seen[root] = true
		all = append(all, area{})
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			for _, a := range t.adjacent[queue[0]] {
				switch {
				case !t.isPlain(a.node):
					join(a.node, a.far)
				case !seen[a.node]:
					seen[a.node] = true
					queue = append(queue, a.node)
				}
			}
		}
	}
	return all, of
}

// pathComputer computes the routes to places: to an area through the routers in
// it, or to one router.
type pathComputer struct {
	*routers
	topology *Topology
	areas    []area
	of       [][]int // area by node and port

	places   []goal
	placeAt  map[string]int // number of a place
	searches [][]int        // routers on the path from each node, -1 if there is no path
	searchOf map[string]int // number of a search by its roots

	key   []byte // of the paths in found
	found []found
}

// found is a path to the next router: by a port, to that router's port.
type found struct {
	port int
	far  plan.End
}

// goal is the target of routes.
type goal struct {
	area   int // -1 for a router itself
	search int // for the routers in it
}

// target returns the number of the place of an address, -1 if it is nowhere.
func (b *pathComputer) target(o plan.End) int {
	at, roots := -1, []int{o.Node}
	key := fmt.Sprint("router ", o.Node)
	if o.Port >= 0 {
		if at = b.of[o.Node][o.Port]; at < 0 {
			return -1
		}
		roots = roots[:0]
		for _, e := range b.areas[at].routers {
			roots = append(roots, e.Node)
		}
		key = fmt.Sprint("area ", at)
	}
	i, ok := b.placeAt[key]
	if !ok {
		i = len(b.places)
		b.placeAt[key] = i
		b.places = append(b.places, goal{at, b.search(roots)})
	}
	return i
}

// search counts the routers on the path from each to the nearest of roots, and
// returns the number of that search.
func (b *pathComputer) search(roots []int) int {
	slices.Sort(roots)
	roots = slices.Compact(roots)
	key := fmt.Sprint(roots)
	if i, ok := b.searchOf[key]; ok {
		return i
	}
	distance := slices.Repeat([]int{-1}, len(b.of))
	for _, n := range roots {
		distance[n] = 0
	}
	crossed := make([]bool, len(b.areas))
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, at := range b.of[n] {
			if at < 0 || crossed[at] {
				continue
			}
			crossed[at] = true
			for _, e := range b.areas[at].routers {
				if distance[e.Node] < 0 {
					distance[e.Node] = distance[n] + 1
					queue = append(queue, e.Node)
				}
			}
		}
	}
	b.searchOf[key] = len(b.searches)
	b.searches = append(b.searches, distance)
	return len(b.searches) - 1
}

// table makes the table of router n, with its groups of ports. target and
// subnet are the places of the known addresses and of the subnets.
func (b *pathComputer) table(n int, groups *tableBuilder, target, subnet []int) *router.Table {
	node := &b.topology.plan.Nodes[n]
	t := &router.Table{
		Own: slices.Clone(node.Router.Addresses), Routes: make([]router.Route, router.Routes),
		Addresses: b.addresses, Subnets: b.subnets,
	}
	for i := range node.Ports {
		for _, a := range node.Ports[i].Addresses {
			t.Own = append(t.Own, a.Addr())
		}
	}
	// Places behind the same routers have the same route, unless n is one of
	// them.
	behind := make([]uint16, len(b.searches))
	made := map[string]uint16{}
	for i := range b.searches {
		behind[i] = b.onward(n, b.searches[i], t, groups, made)
	}
	index := make([]uint16, len(b.places))
	for i, p := range b.places {
		index[i] = behind[p.search]
		if b.searches[p.search][n] == 0 {
			index[i] = b.direct(n, p.area, t, groups)
		}
	}
	at := func(place int) uint16 {
		if place < 0 {
			return router.NoRoute
		}
		return index[place]
	}
	t.Ways = make([]uint16, len(subnet))
	for i, place := range subnet {
		t.Ways[i] = at(place)
	}
	t.Known = make([]uint16, len(target))
	for i, o := range b.owners {
		switch {
		case i == 0:
		case o.Node == n:
			t.Known[i] = router.Local
		default:
			t.Known[i] = at(target[i])
		}
	}
	(&statics{pathComputer: b, node: n, table: t, groups: groups, target: target, base: slices.Clone(t.Known)}).add()
	return t
}

// direct adds a route of router n to an area that it is in, and returns its index.
func (b *pathComputer) direct(n, area int, t *router.Table, groups *tableBuilder) uint16 {
	var ports []uint16
	for p, at := range b.of[n] {
		if at >= 0 && at == area {
			ports = append(ports, uint16(p))
		}
	}
	if len(ports) == 0 {
		return router.NoRoute // the place is the router itself
	}
	t.Routes = append(t.Routes, router.Route{Direct: true, Group: groups.group(ports)})
	return uint16(len(t.Routes) - 1)
}

// onward returns the index of router n's route through the neighbours that are
// nearer to the target of distance. A route with the same paths is reused.
func (b *pathComputer) onward(n int, distance []int, t *router.Table, groups *tableBuilder, made map[string]uint16) uint16 {
	d := distance[n]
	if d <= 0 {
		return router.NoRoute
	}
	b.key, b.found = b.key[:0], b.found[:0]
	for p, at := range b.of[n] {
		if at < 0 {
			continue
		}
		for _, e := range b.areas[at].routers {
			if distance[e.Node] == d-1 {
				b.key = binary.AppendUvarint(binary.AppendUvarint(b.key, uint64(p)), uint64(b.topology.Endpoint(e)))
				b.found = append(b.found, found{p, e})
			}
		}
	}
	if i, ok := made[string(b.key)]; ok {
		return i
	}
	route := router.Route{}
	var ports []uint16
	for _, w := range b.found {
		route.Via = append(route.Via, b.hop(w.far))
		ports = append(ports, uint16(w.port))
	}
	route.Group = groups.group(ports)
	i := uint16(len(t.Routes))
	made[string(b.key)] = i
	t.Routes = append(t.Routes, route)
	return i
}

// hop returns a router's port as a next hop.
func (b *pathComputer) hop(e plan.End) router.Hop {
	return router.Hop{Endpoint: b.topology.Endpoint(e), MAC: b.topology.MAC(e)}
}
