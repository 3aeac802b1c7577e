package spec

import (
	"net/netip"
	"slices"
)

// Routed tells whether the plan has routers.
func (p *Plan) Routed() bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Router != nil })
}

// Ways knows how the hosts of a plan reach addresses. Plan.Ways makes it.
type Ways struct {
	// Domain numbers the broadcast domains from 1, by node and port: ports
	// have the same number exactly when links and plain switches join them.
	Domain [][]int

	plan   *Plan
	joined [][]int // likewise, with routers joining their ports
	owner  map[netip.Addr]End
}

// Ways works out the domains of a plan.
func (p *Plan) Ways() *Ways {
	w := &Ways{plan: p, Domain: p.domains(), owner: map[netip.Addr]End{}}
	w.joined = w.Domain
	if p.Routed() {
		w.joined = p.number(func(n *Node) bool { return n.Kind == Host })
	}
	for n := range p.Nodes {
		for i := range p.Nodes[n].Ports {
			for _, a := range p.Nodes[n].Ports[i].Addresses {
				w.owner[a.Addr()] = End{n, i}
			}
		}
	}
	return w
}

// Next is the port that a host's interface sends a packet for an address to:
// the one that has the address, if it is in the interface's domain, or that of
// the gateway of the host's longest route to it.
func (w *Ways) Next(node, port int, to netip.Addr) (End, bool) {
	domain := w.Domain[node][port]
	in := func(e End, ok bool) (End, bool) {
		return e, ok && e.Node != node && w.Domain[e.Node][e.Port] == domain
	}
	owner, known := w.owner[to]
	if e, ok := in(owner, known); ok {
		return e, true
	}
	best, bits := End{}, -1
	for _, r := range w.plan.Nodes[node].Routes {
		via, known := w.owner[r.Via]
		if e, ok := in(via, known); ok && r.To.Bits() > bits && r.To.Contains(to) {
			best, bits = e, r.To.Bits()
		}
	}
	return best, bits >= 0
}

// Path finds the interfaces between which modelled packets go from one host to
// another, and the port that they go to first: the receiver's, or a router's.
func (w *Ways) Path(from, to int, ipv6 bool) (sender, receiver, first End, ok bool) {
	for _, behindRouters := range []bool{false, true} {
		for i, sp := range w.plan.Nodes[from].Ports {
			for j, rp := range w.plan.Nodes[to].Ports {
				if !hasFamily(sp.Addresses, ipv6) || w.joined[from][i] != w.joined[to][j] {
					continue
				}
				sender, receiver = End{from, i}, End{to, j}
				if !behindRouters && w.Domain[from][i] == w.Domain[to][j] && hasFamily(rp.Addresses, ipv6) {
					return sender, receiver, receiver, true
				}
				address, has := AddressOf(&rp, ipv6)
				if !behindRouters || !has {
					continue
				}
				if e, ok := w.Next(from, i, address); ok && w.plan.Nodes[e.Node].Router != nil {
					return sender, receiver, e, true
				}
			}
		}
	}
	return sender, receiver, first, false
}

// AddressOf is the first address of a version of IP that a port has.
func AddressOf(p *Port, ipv6 bool) (netip.Addr, bool) {
	for _, a := range p.Addresses {
		if a.Addr().Is6() == ipv6 {
			return a.Addr(), true
		}
	}
	return netip.Addr{}, false
}
