package resolve

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
)

// hostRoutes resolves the routes of hosts.
type hostRoutes struct {
	*base
	domain   [][]int                     // broadcast domain of each port of each node
	gateways map[gatewayKey][]netip.Addr // addresses of ports of routers, in the order of the plan
}

type gatewayKey struct {
	domain int
	ipv6   bool
}

// resolveHostRoutes adds the routes to the plan: those of the file, then default routes to routers.
func (v *hostRoutes) resolveHostRoutes() {
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		if n.Kind != plan.Host {
			continue
		}
		for j := range file.Routes {
			f := &file.Routes[j]
			via, ok := v.resolveGateway(f)
			if !ok {
				continue
			}
			route := plan.Route{To: f.To.Prefix, Via: via}
			if f.To.Any {
				route.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
				if route.Via.Is6() {
					route.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
				}
			}
			switch {
			case route.To.Addr().Is6() != route.Via.Is6():
				v.ReportFault(&f.Via, "", "%s and %s have different IP versions", route.Via, route.To)
			case hasRoute(n.Routes, route.To):
				v.ReportFault(&f.To, "", "%s already has a route to %s", n.Name, route.To)
			case !v.onLink(i, route.Via):
				v.ReportFault(&f.Via, "a gateway must be in the prefix of one of the host's addresses",
					"%s cannot reach the gateway %s", n.Name, route.Via)
			}
			n.Routes = append(n.Routes, route)
		}
		v.defaultRoutes(i)
	}
}

// onLink reports whether a host reaches an address without a router.
func (v *hostRoutes) onLink(host int, ip netip.Addr) bool {
	return slices.ContainsFunc(v.plan.Nodes[host].Ports, func(p plan.Port) bool { return anyContains(p.Addresses, ip) })
}

// defaultRoutes gives a host a default route for each version of IP unless the
// file does. The route leads through the first router port in the domain of one
// of the host's interfaces that has an address in a prefix of the interface.
func (v *hostRoutes) defaultRoutes(host int) {
	n := &v.plan.Nodes[host]
	for _, all := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		if hasRoute(n.Routes, all) {
			continue
		}
		for p := range n.Ports {
			if via, ok := v.defaultGateway(v.domain[host][p], all.Addr().Is6(), n.Ports[p].Addresses); ok {
				n.Routes = append(n.Routes, plan.Route{To: all, Via: via})
				break
			}
		}
	}
}

// defaultGateway returns the address of the first router port in a domain that is in one of
// the prefixes.
func (v *hostRoutes) defaultGateway(domain int, ipv6 bool, prefixes []netip.Prefix) (netip.Addr, bool) {
	if v.gateways == nil {
		v.gateways = map[gatewayKey][]netip.Addr{}
		for n := range v.plan.Nodes {
			node := &v.plan.Nodes[n]
			for p := range node.Ports {
				for _, a := range node.Ports[p].Addresses {
					if node.Router != nil {
						key := gatewayKey{v.domain[n][p], a.Addr().Is6()}
						v.gateways[key] = append(v.gateways[key], a.Addr())
					}
				}
			}
		}
	}
	for _, a := range v.gateways[gatewayKey{domain, ipv6}] {
		if anyContains(prefixes, a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// resolveGateway returns the next hop of a host's route and checks its form.
func (v *hostRoutes) resolveGateway(f *labfile.Route) (netip.Addr, bool) {
	ok := f.To.Name == ""
	if !ok {
		v.ReportFault(&f.To, "", "to: %q is not a destination: write for example 10.9.0.0/16, fd09::/64 or default", f.To.Name)
	}
	if len(f.Via) != 1 || !f.Via[0].Plain {
		v.ReportFault(&f.Via, "write for example via: 10.0.0.254", "a host's route needs a single address")
		return netip.Addr{}, false
	}
	ip, err := parseGateway(string(f.Via[0].Port))
	if err != nil {
		v.ReportFault(&f.Via, "", "via: %v", err)
	}
	return ip, ok && err == nil
}
