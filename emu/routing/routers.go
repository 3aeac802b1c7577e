package routing

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/router"
)

// routers is what routers need in addition to switches. All of it follows from the plan and
// does not change; tables.routed makes the tables from it.
type routers struct {
	numbers   map[netip.Addr]int32
	numbered  []netip.Addr     // by those numbers; the first is unused
	addresses []router.Address // likewise
	owners    []plan.End       // likewise; Port is -1 for an address of a router itself
	subnets   *router.Prefixes // maps prefixes to the indices of subnetOf
	prefixes  []netip.Prefix   // by those indices
	subnetOf  []plan.End       // likewise, an owner of an address in each
	firsts    map[int]plan.End // the first port of a router in each domain
}

// addRouters numbers the ports and addresses of routers, after those of hosts.
func (t *Topology) addRouters() {
	p := t.plan
	t.Directory.routers = packet.Endpoint(t.hosts)
	r := &routers{
		numbers:  map[netip.Addr]int32{},
		numbered: make([]netip.Addr, 1), addresses: make([]router.Address, 1), owners: make([]plan.End, 1), subnets: &router.Prefixes{}, firsts: map[int]plan.End{},
	}
	r.addresses[0].Endpoint = -1
	t.routers = r
	for n := range p.Nodes {
		node := &p.Nodes[n]
		for i := range node.Ports {
			end := plan.End{Node: n, Port: i}
			if node.Router != nil {
				t.addEndpoint(end)
				if _, there := r.firsts[t.reach.Domain[n][i]]; !there {
					r.firsts[t.reach.Domain[n][i]] = end
				}
			}
			for _, a := range node.Ports[i].Addresses {
				r.add(a.Addr(), router.Address{Endpoint: t.Endpoint(end), MAC: t.MAC(end)}, end)
			}
		}
		if node.Router != nil {
			for _, a := range node.Router.Addresses {
				r.add(a, router.Address{Endpoint: -1}, plan.End{Node: n, Port: -1})
			}
		}
	}
	r.addSubnets(p)
	t.Directory.numbers = r.numbers
}

// addSubnets numbers the prefixes of the plan.
func (r *routers) addSubnets(p *plan.Plan) {
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
}

func (r *routers) add(a netip.Addr, address router.Address, owner plan.End) {
	r.numbers[a] = int32(len(r.addresses))
	r.numbered = append(r.numbered, a)
	r.addresses, r.owners = append(r.addresses, address), append(r.owners, owner)
}

// addSubnet records the owner of a subnet, unless it has one already.
func (r *routers) addSubnet(a netip.Prefix, owner plan.End) {
	if _, bits := r.subnets.FindPrefix(a.Addr()); bits != a.Bits() {
		r.subnets.Set(a.Masked(), int32(len(r.subnetOf)))
		r.prefixes, r.subnetOf = append(r.prefixes, a.Masked()), append(r.subnetOf, owner)
	}
}

// routed computes the tables of the routers among the nodes that of selects: to
// every address all paths with the fewest routers, with static routes in place of
// some.
func (t *tables) routed(of func(node int) bool) (all []Table) {
	r := t.Topology.routers
	if r == nil {
		return nil
	}
	b := &pathComputer{topology: t.Topology, routers: r, placeAt: map[string]int{}, searchOf: map[string]int{}}
	b.areas, b.of = t.areas()
	// Addresses and subnets at one place have the same routes everywhere.
	target := make([]int, len(r.owners))
	for i, o := range r.owners[1:] {
		target[i+1] = b.target(o)
	}
	subnet := make([]int, len(r.subnetOf))
	for i, o := range r.subnetOf {
		subnet[i] = b.target(o)
	}
	for n := range t.plan.Nodes {
		if t.plan.Nodes[n].Router == nil || !of(n) {
			continue
		}
		groups := newTableBuilder(0, 0)
		table := b.table(n, groups, target, subnet)
		all = append(all, Table{n, groups.table, t.routing(n, table)})
	}
	return all
}

// routing returns what a router needs in addition to its table.
func (t *Topology) routing(n int, table *router.Table) *switches.Routing {
	r, node := t.routers, &t.plan.Nodes[n]
	out := &switches.Routing{Table: table, Ends: t.ends[n], Number: func(a netip.Addr) int32 { return r.numbers[a] }}
	for i := range node.Ports {
		port := &node.Ports[i]
		out.MACs = append(out.MACs, t.MAC(plan.End{Node: n, Port: i}))
		var source [2]netip.Addr
		for v, ipv6 := range []bool{false, true} {
			if a, ok := plan.AddressOf(port, ipv6); ok {
				source[v] = a
			} else if at := slices.IndexFunc(table.Own, func(a netip.Addr) bool { return a.Is6() == ipv6 }); at >= 0 {
				source[v] = table.Own[at]
			}
		}
		out.Sources = append(out.Sources, source)
	}
	return out
}
