package fabric

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/router"
)

// routers is the state of a fabric with routers as well as switches. All of it
// follows from the plan and does not change; tables.routers makes the tables
// from it.
type routers struct {
	reach     *plan.Reach
	ends      [][]packet.Endpoint // of the ports of routers, by node and port
	numbers   map[netip.Addr]int32
	numbered  []netip.Addr     // by those numbers; the first is unused
	addresses []router.Address // likewise
	owners    []plan.End       // likewise; Port is -1 for an address of a router itself
	subnets   *router.Prefixes // maps prefixes to the indices of subnetOf
	prefixes  []netip.Prefix   // by those indices
	subnetOf  []plan.End       // likewise, an owner of an address in each
	firsts    map[int]plan.End // the first port of a router in each domain
}

// addRouters numbers the ports and addresses of routers, after those of
// stations. It does nothing for a plan without routers.
func (f *Fabric) addRouters() {
	p := f.Plan
	for _, s := range f.Stations {
		f.endpoints = append(f.endpoints, plan.End{Node: s.Node, Port: s.Index})
	}
	if !p.Routed() {
		return
	}
	f.directory.stations = packet.Endpoint(len(f.Stations))
	r := &routers{
		reach: p.Reach(), ends: make([][]packet.Endpoint, len(p.Nodes)), numbers: map[netip.Addr]int32{},
		numbered: make([]netip.Addr, 1), addresses: make([]router.Address, 1), owners: make([]plan.End, 1), subnets: &router.Prefixes{}, firsts: map[int]plan.End{},
	}
	r.addresses[0].Endpoint = -1
	f.routers = r
	for n := range p.Nodes {
		node := &p.Nodes[n]
		r.ends[n] = make([]packet.Endpoint, len(node.Ports))
		for i := range node.Ports {
			port, end := &node.Ports[i], plan.End{Node: n, Port: i}
			mac := f.mac(end)
			if node.Router != nil {
				r.ends[n][i] = packet.Endpoint(len(f.endpoints))
				f.endpoints = append(f.endpoints, end)
				if _, there := r.firsts[r.reach.Domain[n][i]]; !there {
					r.firsts[r.reach.Domain[n][i]] = end
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
				r.add(a, router.Address{Endpoint: -1}, plan.End{Node: n, Port: -1})
			}
		}
	}
	for n := range p.Nodes {
		if node := &p.Nodes[n]; node.Router != nil {
			for _, a := range node.Router.Addresses {
				r.addSubnet(netip.PrefixFrom(a, a.BitLen()), plan.End{Node: n, Port: -1})
			}
		}
	}
	// Subnets of routers come first: a host may be cut off from its subnet.
	for _, routed := range []bool{true, false} {
		for n := range p.Nodes {
			for i := range p.Nodes[n].Ports {
				for _, a := range p.Nodes[n].Ports[i].Addresses {
					if routed == (p.Nodes[n].Router != nil) {
						r.addSubnet(a, plan.End{Node: n, Port: i})
					}
				}
			}
		}
	}
	f.directory.numbers = r.numbers
	for _, e := range f.endpoints {
		f.directory.domain = append(f.directory.domain, r.reach.Domain[e.Node][e.Port])
	}
}

func (r *routers) add(a netip.Addr, address router.Address, owner plan.End) {
	r.numbers[a] = int32(len(r.addresses))
	r.numbered = append(r.numbered, a)
	r.addresses, r.owners = append(r.addresses, address), append(r.owners, owner)
}

// addSubnet records the owner of a subnet, unless it has one already.
func (r *routers) addSubnet(a netip.Prefix, owner plan.End) {
	if _, bits := r.subnets.Find(a.Addr()); bits != a.Bits() {
		r.subnets.Set(a.Masked(), int32(len(r.subnetOf)))
		r.prefixes, r.subnetOf = append(r.prefixes, a.Masked()), append(r.subnetOf, owner)
	}
}

// routers computes the tables of the routers of a shard, or of all routers if
// shard is nil: to every address all paths with the fewest routers, with static
// routes in place of some.
func (t *tables) routers(shard *Shard) {
	f, r := t.Fabric, t.Fabric.routers
	if r == nil {
		return
	}
	b := &pathComputer{fabric: f, routers: r, placeAt: map[string]int{}, searchOf: map[string]int{}}
	b.areas, b.of = f.areas(t.adjacent)
	// Addresses and subnets at one place have the same routes everywhere.
	target := make([]int, len(r.owners))
	for i, o := range r.owners[1:] {
		target[i+1] = b.target(o)
	}
	subnet := make([]int, len(r.subnetOf))
	for i, o := range r.subnetOf {
		subnet[i] = b.target(o)
	}
	for n, sw := range f.Switches {
		if f.Plan.Nodes[n].Router == nil || !t.isOf(shard, n) {
			continue
		}
		groups := newTableBuilder(0, 0)
		table := b.table(n, groups, target, subnet)
		sw.SetTable(groups.table)
		sw.SetRouting(f.routing(n, table))
	}
}

// routing returns what a router needs in addition to its table.
func (f *Fabric) routing(n int, t *router.Table) switches.Routing {
	r, node := f.routers, &f.Plan.Nodes[n]
	out := switches.Routing{Table: t, Ends: r.ends[n], Number: func(a netip.Addr) int32 { return r.numbers[a] }}
	for i := range node.Ports {
		port := &node.Ports[i]
		out.MACs = append(out.MACs, f.mac(plan.End{Node: n, Port: i}))
		var source [2]netip.Addr
		for v, ipv6 := range []bool{false, true} {
			if a, ok := plan.AddressOf(port, ipv6); ok {
				source[v] = a
			} else if at := slices.IndexFunc(t.Own, func(a netip.Addr) bool { return a.Is6() == ipv6 }); at >= 0 {
				source[v] = t.Own[at]
			}
		}
		out.Sources = append(out.Sources, source)
	}
	return out
}

// Way is a router's path to a subnet, or to the target of a static route.
type Way struct {
	To      netip.Prefix
	Local   bool       // it is an address of the router itself
	Direct  bool       // the router is in the subnet
	Static  bool       // from a static route
	Ports   []int      // the router's ports that lead there; none if Local or unreachable
	Weights []int      // of Ports, if they are not all equal
	Via     []plan.End // the next routers' ports, if not Direct
}

// Ways returns the paths of a router to all subnets and by all its static
// routes, ordered by address.
func (f *Fabric) Ways(node int) (ways []Way) {
	sw, r := f.Switches[node], f.routers
	t := sw.Routing().Table
	seen := map[netip.Prefix]bool{}
	add := func(to netip.Prefix, index uint16) {
		if seen[to] {
			return
		}
		seen[to] = true
		w := Way{To: to, Local: to.IsSingleIP() && t.Owns(to.Addr())}
		if route := &t.Routes[index]; index >= router.Routes && !w.Local {
			w.Direct, w.Static = route.Direct, route.Static
			table := sw.Table()
			ports, weights := table.Weights(route.Group)
			for i, p := range ports {
				w.Ports = append(w.Ports, int(p))
				if weights[i] != weights[0] {
					w.Weights = weights
				}
			}
			for _, h := range route.Via {
				if e := f.endpoints[h.Endpoint]; !slices.Contains(w.Via, e) {
					w.Via = append(w.Via, e)
				}
			}
		}
		ways = append(ways, w)
	}
	for _, s := range f.Plan.Nodes[node].Static {
		for _, p := range s.Prefixes {
			if index, ok := t.Static.Get(p); ok {
				add(p, uint16(index))
			}
		}
		for _, a := range r.named(&s) {
			if index := t.Known[r.numbers[a]]; t.Routes[index].Static {
				add(netip.PrefixFrom(a, a.BitLen()), index)
			}
		}
	}
	for i, p := range r.prefixes {
		add(p, t.Ways[i])
	}
	slices.SortFunc(ways, func(a, b Way) int { return a.To.Compare(b.To) })
	return ways
}
