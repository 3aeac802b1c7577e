package routing

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/switches/router"
)

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
func (t *Topology) Ways(node int, table Table) (ways []Way) {
	r, routes := t.routers, table.Routing.Table
	seen := map[netip.Prefix]bool{}
	add := func(to netip.Prefix, index uint16) {
		if seen[to] {
			return
		}
		seen[to] = true
		w := Way{To: to, Local: to.IsSingleIP() && routes.Owns(to.Addr())}
		if route := &routes.Routes[index]; index >= router.Routes && !w.Local {
			w.Direct, w.Static = route.Direct, route.Static
			ports, weights := table.Forwarding.Weights(route.Group)
			for i, p := range ports {
				w.Ports = append(w.Ports, int(p))
				if weights[i] != weights[0] {
					w.Weights = weights
				}
			}
			for _, h := range route.Via {
				if e := t.Endpoints[h.Endpoint]; !slices.Contains(w.Via, e) {
					w.Via = append(w.Via, e)
				}
			}
		}
		ways = append(ways, w)
	}
	for _, s := range t.plan.Nodes[node].Static {
		for _, p := range s.Prefixes {
			if index, ok := routes.Static.Get(p); ok {
				add(p, uint16(index))
			}
		}
		for _, a := range r.named(&s) {
			if index := routes.Known[r.numbers[a]]; routes.Routes[index].Static {
				add(netip.PrefixFrom(a, a.BitLen()), index)
			}
		}
	}
	for i, p := range r.prefixes {
		add(p, routes.Ways[i])
	}
	slices.SortFunc(ways, func(a, b Way) int { return a.To.Compare(b.To) })
	return ways
}
