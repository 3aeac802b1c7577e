package routing

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/switches/router"
)

// Route is a router's route to a subnet, or to the target of a static route.
type Route struct {
	To      netip.Prefix
	Local   bool       // it is an address of the router itself
	Direct  bool       // the router is in the subnet
	Static  bool       // from a static route
	Ports   []int      // the router's ports that lead there; none if Local or unreachable
	Weights []int      // of Ports, if they are not all equal
	Via     []plan.End // the next routers' ports, if not Direct
}

// Routes returns the routes of a router to all subnets and all its static
// routes, ordered by address.
func (t *Topology) Routes(node int, table Table) (all []Route) {
	r, from := t.routers, table.Routing.Table
	seen := map[netip.Prefix]bool{}
	add := func(to netip.Prefix, index uint16) {
		if seen[to] {
			return
		}
		seen[to] = true
		x := Route{To: to, Local: to.IsSingleIP() && from.OwnsAddress(to.Addr())}
		if route := &from.Routes[index]; index >= router.Routes && !x.Local {
			x.Direct, x.Static = route.Direct, route.Static
			ports, weights := table.Forwarding.GroupWeights(route.Group)
			for i, p := range ports {
				x.Ports = append(x.Ports, int(p))
				if weights[i] != weights[0] {
					x.Weights = weights
				}
			}
			for _, h := range route.Via {
				if e := t.Endpoints[h.Endpoint]; !slices.Contains(x.Via, e) {
					x.Via = append(x.Via, e)
				}
			}
		}
		all = append(all, x)
	}
	for _, s := range t.plan.Nodes[node].Static {
		for _, p := range s.Prefixes {
			if index, ok := from.Static.Get(p); ok {
				add(p, uint16(index))
			}
		}
		for _, a := range r.named(&s) {
			if index := from.Known[r.numbers[a]]; from.Routes[index].Static {
				add(netip.PrefixFrom(a, a.BitLen()), index)
			}
		}
	}
	for i, p := range r.prefixes {
		add(p, from.Ways[i])
	}
	slices.SortFunc(all, func(a, b Route) int { return a.To.Compare(b.To) })
	return all
}
