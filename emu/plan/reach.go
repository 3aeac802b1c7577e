package plan

import (
	"net/netip"
	"slices"
)

// Routed reports whether the plan has routers.
func (p *Plan) Routed() bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Router != nil })
}

// Reach knows how the hosts of a plan reach addresses. Plan.Reach makes it.
type Reach struct {
	// Domain numbers the broadcast domains from 1, by node and port: ports
	// have the same number exactly when links and plain switches join them.
	Domain [][]int

	plan   *Plan
	joined [][]int // likewise, with routers joining their ports
	owner  map[netip.Addr]End
}

// Reach works out the domains of a plan.
func (p *Plan) Reach() *Reach {
	r := &Reach{plan: p, Domain: p.Domains(), owner: map[netip.Addr]End{}}
	r.joined = r.Domain
	if p.Routed() {
		r.joined = p.number(func(n *Node) bool { return n.Kind == Host })
	}
	for n := range p.Nodes {
		for i := range p.Nodes[n].Ports {
			for _, a := range p.Nodes[n].Ports[i].Addresses {
				r.owner[a.Addr()] = End{n, i}
			}
		}
	}
	return r
}

// Next returns the port that a host's interface sends a packet for an address
// to: the port with the address, if it is in the interface's domain, or the
// gateway's port on the longest route of the host to it through the interface.
func (r *Reach) Next(node, port int, to netip.Addr) (End, bool) {
	e, bits := r.next(node, port, to)
	return e, bits >= 0
}

// next is Next with the prefix length of the route, -1 if there is none.
func (r *Reach) next(node, port int, to netip.Addr) (best End, bits int) {
	domain := r.Domain[node][port]
	in := func(e End, ok bool) (End, bool) {
		return e, ok && e.Node != node && r.Domain[e.Node][e.Port] == domain
	}
	owner, known := r.owner[to]
	if e, ok := in(owner, known); ok {
		return e, to.BitLen()
	}
	bits = -1
	for _, route := range r.plan.Nodes[node].Routes {
		via, known := r.owner[route.Via]
		if e, ok := in(via, known); ok && route.To.Bits() > bits && route.To.Contains(to) {
			best, bits = e, route.To.Bits()
		}
	}
	return best, bits
}

// Path returns the interfaces at the ends of modelled packets from one host to
// another, and the port that the packets go to first: the receiver's, or a
// router's on the host's longest route.
func (r *Reach) Path(from, to int, ipv6 bool) (sender, receiver, first End, ok bool) {
	for i, sp := range r.plan.Nodes[from].Ports {
		for j, rp := range r.plan.Nodes[to].Ports {
			if r.Domain[from][i] == r.Domain[to][j] && HasFamily(sp.Addresses, ipv6) && HasFamily(rp.Addresses, ipv6) {
				return End{from, i}, End{to, j}, End{to, j}, true
			}
		}
	}
	for j, rp := range r.plan.Nodes[to].Ports {
		address, has := AddressOf(&rp, ipv6)
		if !has {
			continue
		}
		longest := -1
		for i := range r.plan.Nodes[from].Ports {
			if e, bits := r.next(from, i, address); bits > longest {
				sender, first, longest = End{from, i}, e, bits
			}
		}
		if longest >= 0 && r.plan.Nodes[first.Node].Router != nil && r.joined[from][sender.Port] == r.joined[to][j] {
			return sender, End{to, j}, first, true
		}
	}
	return sender, receiver, first, false
}

// AddressOf returns the first address of an IP version that a port has.
func AddressOf(p *Port, ipv6 bool) (netip.Addr, bool) {
	for _, a := range p.Addresses {
		if a.Addr().Is6() == ipv6 {
			return a.Addr(), true
		}
	}
	return netip.Addr{}, false
}
