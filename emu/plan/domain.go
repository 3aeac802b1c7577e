package plan

import (
	"cmp"
	"net/netip"
	"slices"
)

// OnLink returns the prefixes that a host's interface must treat as directly
// reachable, apart from those of its own addresses, so that the host reaches every
// other host that links and plain switches join to the interface, and their
// routers. The prefixes are masked and sorted, and none covers another. An
// interface without an address of a family has no prefixes of that family. If
// several interfaces of the host lead to the same place, the first that can takes
// all.
func (p *Plan) OnLink(node, port int) []netip.Prefix {
	domain := p.Domains()
	here := domain[node][port]
	var found []netip.Prefix
	for n := range p.Nodes {
		for i, other := range p.Nodes[n].Ports {
			if n == node || domain[n][i] != here {
				continue
			}
			for _, a := range other.Addresses {
				if to, ok := p.route(node, port, domain[node], a); ok {
					found = append(found, to)
				}
			}
		}
	}
	// The widest come first, so that prefixes that they cover are left out.
	slices.SortFunc(found, func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) })
	var widest []netip.Prefix
	for _, f := range found {
		if !anyCovers(widest, f) {
			widest = append(widest, f)
		}
	}
	slices.SortFunc(widest, netip.Prefix.Compare)
	return widest
}

// route returns what a host's interface must treat as directly reachable to
// reach the address to, which is on its link. It returns false if there is no
// need: an interface that leads there covers the address, or takes it before
// this one. If an interface that leads elsewhere has the same prefix, only the
// one address is taken.
func (p *Plan) route(node, port int, domain []int, to netip.Prefix) (netip.Prefix, bool) {
	prefix := to.Masked()
	taken := false
	for i, q := range p.Nodes[node].Ports {
		same, covers := domain[i] == domain[port], anyCovers(q.Addresses, to)
		switch {
		case same && covers:
			return netip.Prefix{}, false
		case same && i < port && HasFamily(q.Addresses, to.Addr().Is6()):
			taken = true
		case covers:
			prefix = netip.PrefixFrom(to.Addr(), to.Addr().BitLen())
		}
	}
	return prefix, !taken && HasFamily(p.Nodes[node].Ports[port].Addresses, to.Addr().Is6())
}

// HasFamily reports whether one of the addresses is IPv6 or, if ipv6 is false, IPv4.
func HasFamily(addresses []netip.Prefix, ipv6 bool) bool {
	return slices.ContainsFunc(addresses, func(a netip.Prefix) bool { return a.Addr().Is6() == ipv6 })
}

func anyCovers(wide []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(wide, func(w netip.Prefix) bool {
		return w.Bits() <= p.Bits() && w.Contains(p.Addr())
	})
}

// Domains numbers the broadcast domains: ports have the same number exactly
// when links and plain switches join them. The result is indexed by node and
// port.
func (p *Plan) Domains() [][]int {
	return p.number(func(n *Node) bool { return n.Kind == Host || n.Router != nil })
}

// number gives each port of an end node a separate number, all ports of any
// other node the same number, and the two ends of a link the same number.
func (p *Plan) number(end func(n *Node) bool) [][]int {
	domain := make([][]int, len(p.Nodes))
	for n := range p.Nodes {
		domain[n] = make([]int, len(p.Nodes[n].Ports))
	}
	last := 0
	var todo []End
	visit := func(e End) {
		ports := p.Nodes[e.Node].Ports
		if end(&p.Nodes[e.Node]) {
			domain[e.Node][e.Port] = last
			todo = append(todo, e)
			return
		}
		for i := range ports {
			domain[e.Node][i] = last
			todo = append(todo, End{e.Node, i})
		}
	}
	for n := range p.Nodes {
		for i := range p.Nodes[n].Ports {
			if domain[n][i] != 0 {
				continue
			}
			last++
			visit(End{n, i})
			for len(todo) > 0 {
				at := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				port := p.Nodes[at.Node].Ports[at.Port]
				if port.Link < 0 {
					continue
				}
				if far := p.Links[port.Link].Ends[1-port.End]; domain[far.Node][far.Port] == 0 {
					visit(far)
				}
			}
		}
	}
	return domain
}
