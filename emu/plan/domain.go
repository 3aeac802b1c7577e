package plan

import (
	"net/netip"
	"slices"
)

// HasFamily reports whether one of the addresses is IPv6 or, if ipv6 is false, IPv4.
func HasFamily(addresses []netip.Prefix, ipv6 bool) bool {
	return slices.ContainsFunc(addresses, func(a netip.Prefix) bool { return a.Addr().Is6() == ipv6 })
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
