package fabric

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/spec"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/router"
)

// routers is what a fabric with routers knows beside its switches. All of it
// follows from the plan and stays; routeRouters makes the tables from it.
type routers struct {
	ways      *spec.Ways
	ends      [][]packet.Endpoint // of the ports of routers, by node and port
	numbers   map[netip.Addr]int32
	addresses []router.Address // by those numbers
	owners    []spec.End       // likewise; of an address of a router itself the Port is -1
	subnets   *router.Prefixes // numbers subnetOf
	prefixes  []netip.Prefix   // by those numbers
	subnetOf  []spec.End       // likewise, somebody who is in each
	firsts    map[int]spec.End // the first port of a router in each domain
}

// addRouters numbers the ports and addresses of routers, behind those of
// stations. It does nothing for a plan without routers.
func (f *Fabric) addRouters() {
	p := f.Plan
	for _, s := range f.Stations {
		f.endpoints = append(f.endpoints, spec.End{Node: s.Node, Port: s.Index})
	}
	if !p.Routed() {
		return
	}
	f.directory.stations = packet.Endpoint(len(f.Stations))
	r := &routers{
		ways: p.Ways(), ends: make([][]packet.Endpoint, len(p.Nodes)), numbers: map[netip.Addr]int32{},
		addresses: make([]router.Address, 1), owners: make([]spec.End, 1), subnets: &router.Prefixes{}, firsts: map[int]spec.End{},
	}
	r.addresses[0].Endpoint = -1
	f.routers = r
	for n := range p.Nodes {
		node := &p.Nodes[n]
		r.ends[n] = make([]packet.Endpoint, len(node.Ports))
		for i := range node.Ports {
			port, end := &node.Ports[i], spec.End{Node: n, Port: i}
			mac := f.mac(end)
			if node.Router != nil {
				r.ends[n][i] = packet.Endpoint(len(f.endpoints))
				f.endpoints = append(f.endpoints, end)
				if _, there := r.firsts[r.ways.Domain[n][i]]; !there {
					r.firsts[r.ways.Domain[n][i]] = end
				}
				f.directory.add(r.ends[n][i], mac, port.Addresses)
			} else if s := f.stations[n][i]; s != nil {
				r.ends[n][i] = s.ID
			}
			for _, a := range port.Addresses {
				r.add(a.Addr(), router.Address{Endpoint: r.ends[n][i], MAC: mac}, end)
			}
		}
		if node.Router != nil {
			for _, a := range node.Router.Addresses {
				r.add(a, router.Address{Endpoint: -1}, spec.End{Node: n, Port: -1})
			}
		}
	}
	for n := range p.Nodes {
		if node := &p.Nodes[n]; node.Router != nil {
			for _, a := range node.Router.Addresses {
				r.addSubnet(netip.PrefixFrom(a, a.BitLen()), spec.End{Node: n, Port: -1})
			}
		}
	}
	// Those of routers come first: a host may be cut off from its subnet.
	for _, routed := range []bool{true, false} {
		for n := range p.Nodes {
			for i := range p.Nodes[n].Ports {
				for _, a := range p.Nodes[n].Ports[i].Addresses {
					if routed == (p.Nodes[n].Router != nil) {
						r.addSubnet(a, spec.End{Node: n, Port: i})
					}
				}
			}
		}
	}
	f.directory.numbers = r.numbers
	for _, e := range f.endpoints {
		f.directory.domain = append(f.directory.domain, r.ways.Domain[e.Node][e.Port])
	}
}

func (r *routers) add(a netip.Addr, address router.Address, owner spec.End) {
	r.numbers[a] = int32(len(r.addresses))
	r.addresses, r.owners = append(r.addresses, address), append(r.owners, owner)
}

// addSubnet notes who is in a subnet, unless somebody else is.
func (r *routers) addSubnet(a netip.Prefix, owner spec.End) {
	if _, bits := r.subnets.Find(a.Addr()); bits != a.Bits() {
		r.subnets.Set(a.Masked(), int32(len(r.subnetOf)))
		r.prefixes, r.subnetOf = append(r.prefixes, a.Masked()), append(r.subnetOf, owner)
	}
}

// area is a broadcast domain as the links that are there make it.
type area struct{ routers []spec.End }

// areas finds them, and gives the number of that of every port of a host or
// router, by node and port; -1 where it leads nowhere.
func (f *Fabric) areas(adjacent [][]neighbour, tables []*tableBuilder) (all []area, of [][]int) {
	of = make([][]int, len(f.Plan.Nodes))
	for n := range f.Plan.Nodes {
		of[n] = slices.Repeat([]int{-1}, len(f.Plan.Nodes[n].Ports))
	}
	join := func(node, port int) {
		of[node][port] = len(all) - 1
		if f.Plan.Nodes[node].Router != nil {
			a := &all[len(all)-1]
			a.routers = append(a.routers, spec.End{Node: node, Port: port})
		}
	}
	seen := make([]bool, len(f.Plan.Nodes))
	for root := range f.Plan.Nodes {
		if tables[root] == nil {
			for _, a := range adjacent[root] {
				if tables[a.node] == nil && of[root][a.port] < 0 { // no switch is between them
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
			for _, a := range adjacent[queue[0]] {
				switch {
				case tables[a.node] == nil:
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

// routeRouters gives every router its table: to every address all ways with
// the fewest routers. Tables are those of plain switches, nil for others.
func (f *Fabric) routeRouters(adjacent [][]neighbour, tables []*tableBuilder) {
	r := f.routers
	if r == nil {
		return
	}
	b := &wayfinder{fabric: f, routers: r, placeAt: map[string]int{}, searchOf: map[string]int{}}
	b.areas, b.of = f.areas(adjacent, tables)
	// What leads to one place has the same routes everywhere.
	target := make([]int, len(r.owners))
	for i, o := range r.owners[1:] {
		target[i+1] = b.target(o)
	}
	subnet := make([]int, len(r.subnetOf))
	for i, o := range r.subnetOf {
		subnet[i] = b.target(o)
	}
	for n, sw := range f.Switches {
		if sw == nil || f.Plan.Nodes[n].Router == nil {
			continue
		}
		groups := newTableBuilder(0, 0)
		t := b.table(n, groups, target, subnet)
		sw.SetTable(groups.table)
		sw.SetRouting(f.routing(n, t))
	}
}

// routing is what a router is told beside its table.
func (f *Fabric) routing(n int, t *router.Table) switches.Routing {
	r, node := f.routers, &f.Plan.Nodes[n]
	out := switches.Routing{Table: t, Ends: r.ends[n], Number: func(a netip.Addr) int32 { return r.numbers[a] }}
	for i := range node.Ports {
		port := &node.Ports[i]
		out.MACs = append(out.MACs, f.mac(spec.End{Node: n, Port: i}))
		var source [2]netip.Addr
		for v, ipv6 := range []bool{false, true} {
			if a, ok := spec.AddressOf(port, ipv6); ok {
				source[v] = a
			} else if at := slices.IndexFunc(t.Own, func(a netip.Addr) bool { return a.Is6() == ipv6 }); at >= 0 {
				source[v] = t.Own[at]
			}
		}
		out.Sources = append(out.Sources, source)
	}
	return out
}

// wayfinder computes the routes to places: to an area through the routers at
// it, or to one router.
type wayfinder struct {
	*routers
	fabric *Fabric
	areas  []area
	of     [][]int // area by node and port

	places   []place
	placeAt  map[string]int // number of a place
	searches [][]int        // routers on the way from each node, -1 from where there is none
	searchOf map[string]int // number of a search by its roots

	key   []byte // of the ways in found
	found []found
}

// found is a way to the next router: by a port, to that router's port.
type found struct {
	port int
	far  spec.End
}

// place is what routes lead to.
type place struct {
	area   int // -1 for a router itself
	search int // to the routers at it
}

// target gives the number of the place where an address is, -1 when it is
// nowhere.
func (b *wayfinder) target(o spec.End) int {
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
		b.places = append(b.places, place{at, b.search(roots)})
	}
	return i
}

// search counts the routers on the way from each to the nearest of roots, and
// gives the number of that search.
func (b *wayfinder) search(roots []int) int {
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

// table makes the table of router n, with its groups of ports. Target and
// subnet are the places of the known addresses and of the subnets.
func (b *wayfinder) table(n int, groups *tableBuilder, target, subnet []int) *router.Table {
	node := &b.fabric.Plan.Nodes[n]
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
	return t
}

// direct gives the index of a new route of router n to an area that it is in.
func (b *wayfinder) direct(n, area int, t *router.Table, groups *tableBuilder) uint16 {
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

// onward gives the index of router n's route through the neighbours that are
// nearer to where distance is counted to. One with the same ways is used
// again.
func (b *wayfinder) onward(n int, distance []int, t *router.Table, groups *tableBuilder, made map[string]uint16) uint16 {
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
				b.key = binary.AppendUvarint(binary.AppendUvarint(b.key, uint64(p)), uint64(b.ends[e.Node][e.Port]))
				b.found = append(b.found, found{p, e})
			}
		}
	}
	if i, ok := made[string(b.key)]; ok {
		return i
	}
	via := make([][]router.Hop, len(b.of[n]))
	var ports []uint16 // as often as there are ways through each
	for _, w := range b.found {
		via[w.port] = append(via[w.port], router.Hop{Endpoint: b.ends[w.far.Node][w.far.Port], MAC: b.fabric.mac(w.far)})
		ports = append(ports, uint16(w.port))
	}
	i := uint16(len(t.Routes))
	made[string(b.key)] = i
	t.Routes = append(t.Routes, router.Route{Group: groups.group(ports), Via: via})
	return i
}

// Neighbours is where a station's packets go on its link, for a host that does
// not ask by ARP or neighbour discovery.
func (f *Fabric) Neighbours(s *Station) Neighbours { return Neighbours{f, s} }

// Neighbours implements tuntap.Neighbours.
type Neighbours struct {
	fabric  *Fabric
	station *Station
}

// MAC gives the Ethernet address of who has an IP address, or of the router
// that leads there.
func (n Neighbours) MAC(ip netip.Addr) (wire.MAC, bool) {
	f, s := n.fabric, n.station
	if f.routers == nil {
		return f.directory.MAC(ip)
	}
	next, ok := f.routers.ways.Next(s.Node, s.Index, ip)
	if !ok {
		// Perhaps by a route that a program in the host has added.
		next, ok = f.routers.first(s.Node, s.Index)
	}
	if !ok {
		return 0, false
	}
	return f.mac(next), true
}

// first is the first port of a router in the domain of a host's interface.
func (r *routers) first(node, port int) (spec.End, bool) {
	e, ok := r.firsts[r.ways.Domain[node][port]]
	return e, ok
}

func (f *Fabric) mac(e spec.End) wire.MAC {
	m := f.Plan.Nodes[e.Node].Ports[e.Port].MAC
	return wire.ReadMAC(m[:])
}

// aim prepares a packet of a switch's own, which has the Dest of a station and
// no bytes, for the way through routers.
func (f *Fabric) aim(node int, p *packet.Packet) {
	r := f.routers
	if r == nil || p.Dest < 0 || int(p.Dest) >= len(f.Stations) {
		return
	}
	s := f.Stations[p.Dest]
	if a, ok := spec.AddressOf(&f.Plan.Nodes[s.Node].Ports[s.Index], p.Version == 6); ok {
		p.To = r.numbers[a]
	}
	here := r.ways.Domain[node][0]
	if f.Plan.Nodes[node].Router != nil || r.ways.Domain[s.Node][s.Index] == here {
		return
	}
	if e, ok := r.firsts[here]; ok {
		p.Dest = r.ends[e.Node][e.Port]
	}
}

// Way is a router's way to a subnet.
type Way struct {
	To     netip.Prefix
	Local  bool       // it is an address of the router itself
	Direct bool       // the router is in it
	Ports  []int      // of the router, through which it leads; none when it is Local, or there is no way
	Via    []spec.End // the next routers' ports, when it is not direct
}

// Ways gives the ways of a router to all subnets, by their addresses.
func (f *Fabric) Ways(node int) (ways []Way) {
	sw := f.Switches[node]
	t := sw.Routing().Table
	for i, p := range f.routers.prefixes {
		w := Way{To: p, Local: p.IsSingleIP() && t.Owns(p.Addr())}
		if route := t.Routes[t.Ways[i]]; t.Ways[i] >= router.Routes {
			w.Direct = route.Direct
			for _, port := range sw.Table().Groups[route.Group] {
				w.Ports = append(w.Ports, int(port))
			}
			for _, hops := range route.Via {
				for _, h := range hops {
					w.Via = append(w.Via, f.endpoints[h.Endpoint])
				}
			}
			w.Ports = slices.Compact(w.Ports)
		}
		ways = append(ways, w)
	}
	slices.SortFunc(ways, func(a, b Way) int { return a.To.Compare(b.To) })
	return ways
}
