package resolve

import (
	"net/netip"
	"slices"
)

// checkRoutedTo checks the destination of a router's static route.
func (v *switchRoutes) checkRoutedTo(node int, l *located) bool {
	n := &v.plan.Nodes[node]
	for _, p := range n.Ports {
		for _, a := range p.Addresses {
			if slices.Contains(l.Prefixes, a.Masked()) {
				v.ReportFault(&l.file.To, "write longer prefixes, or name the hosts", "%s is the subnet of %s:%s itself", l.To, n.Name, p.Name)
				return false
			}
		}
	}
	if len(l.Prefixes) > 0 && !v.somebodyIn(node, l.Prefixes) {
		v.ReportFault(&l.file.To, "", "no other node in the lab has an address in %s", l.To)
		return false
	}
	for _, s := range l.Stations {
		if len(l.Prefixes) == 0 && len(v.plan.Nodes[s.Node].Ports[s.Port].Addresses) == 0 {
			v.ReportFault(&l.file.To, "", "%s has no address that a router could route to", v.plan.PortName(s.Node, s.Port))
			return false
		}
	}
	return true
}

// somebodyIn reports whether another node has an address in one of the
// prefixes.
func (v *switchRoutes) somebodyIn(node int, prefixes []netip.Prefix) bool {
	in := func(a netip.Addr) bool {
		return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if i == node {
			continue
		}
		if n.Router != nil && slices.ContainsFunc(n.Router.Addresses, in) {
			return true
		}
		for _, p := range n.Ports {
			if slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return in(a.Addr()) }) {
				return true
			}
		}
	}
	return false
}

// checkRouted reports routes of a router through a port whose domain contains
// neither another router nor all destinations of the route.
func (v *switchRoutes) checkRouted(node int, routes []located) {
	for i := range routes {
		l := &routes[i]
		for k, w := range l.Via {
			domain := v.domain[node][w.Port]
			if v.hasRouter(domain, node) {
				continue
			}
			for _, s := range l.Stations {
				if v.domain[s.Node][s.Port] != domain {
					v.ReportFault(&l.file.Via[k], "a route to another broadcast domain needs a port with a router behind it",
						"the port %s has no router behind it, and %s is in another broadcast domain", v.plan.Nodes[node].Ports[w.Port].Name, v.plan.PortName(s.Node, s.Port))
					break
				}
			}
		}
	}
}

// hasRouter reports whether there is another router in a domain.
func (v *switchRoutes) hasRouter(domain, node int) bool {
	for i := range v.plan.Nodes {
		if i != node && v.plan.Nodes[i].Router != nil && slices.Contains(v.domain[i], domain) {
			return true
		}
	}
	return false
}
