package plan

import (
	"fmt"
	"net/netip"
	"strings"
)

// PathError says why no path for modelled packets leads from one host to another.
type PathError struct {
	reason  pathReason
	plan    *Plan
	from    End // the interface that packets leave by
	bound   bool
	to      End
	address netip.Prefix // of to
	gateway netip.Addr   // of the route, if it has one
	via     End          // the port with the gateway's address
	ipv6    bool
}

type pathReason uint8

const (
	noAddress   pathReason = iota // the receiver has none of the IP version
	noRoute                       // the sender has none
	noSource                      // the interface has no address of the IP version
	noGateway                     // nobody has the gateway's address there
	elsewhere                     // the route leads to other links
	throughHost                   // the gateway is a host
	apart                         // routers do not lead there
)

// Error says what is wrong.
func (e *PathError) Error() string {
	from, out, to := e.plan.Nodes[e.from.Node].Name, e.plan.PortName(e.from.Node, e.from.Port), e.plan.PortName(e.to.Node, e.to.Port)
	address := e.address.Addr()
	switch e.reason {
	case noAddress:
		version := "IPv4"
		if e.ipv6 {
			version = "IPv6"
		}
		if e.bound {
			return fmt.Sprintf("%s has no %s address and link", to, version)
		}
		return fmt.Sprintf("%s has no interface with a link and an %s address", e.plan.Nodes[e.to.Node].Name, version)
	case noRoute:
		if e.bound {
			return fmt.Sprintf("%s has no route to %s of %s by %s", from, address, to, out)
		}
		return fmt.Sprintf("%s has no route to %s of %s", from, address, to)
	case noSource:
		return fmt.Sprintf("%s's route to %s of %s leads out of %s, which has no address of that IP version", from, address, to, out)
	case noGateway:
		return fmt.Sprintf("%s's route to %s of %s has the gateway %s, which nobody has on the links of %s", from, address, to, e.gateway, out)
	case elsewhere:
		return fmt.Sprintf("%s's route to %s of %s leads out of %s, and no links and switches lead from there to %s", from, address, to, out, to)
	case throughHost:
		return fmt.Sprintf("%s's route to %s of %s leads through the host %s", from, address, to, e.plan.Nodes[e.via.Node].Name)
	}
	if via := e.via; via != e.to {
		return fmt.Sprintf("%s's route to %s of %s leads to %s, and no links, switches and routers lead from there to %s", from, address, to, e.plan.PortName(via.Node, via.Port), to)
	}
	return fmt.Sprintf("no links, switches and routers lead from %s to %s", out, to)
}

// Hint says what would be right.
func (e *PathError) Hint() string {
	p := e.plan
	switch e.reason {
	case noAddress:
		return "give it a link, and an address under interfaces: or a pool under addressing:"
	case throughHost:
		return fmt.Sprintf("a host's kernel forwards packets of programs, not modelled traffic: make %s a router, a switch with an address", p.Nodes[e.via.Node].Name)
	case noGateway:
		return "give that address to a port of a router on these links, or correct via:"
	case elsewhere:
		at := sameDomain(p, p.Domains(), e.from, false, e.to)
		if at.Node < 0 {
			return joinHint
		}
		return fmt.Sprintf("interfaces on separate links need separate prefixes: write other addresses, or leave them out for automatic ones, or name the interface to send by, %s", p.PortName(at.Node, at.Port))
	case noSource:
		return "give it one under interfaces:"
	case apart:
		return joinHint
	}
	domain := p.Domains()
	if at := sameDomain(p, domain, e.from, e.bound, e.to); at.Node >= 0 {
		return fmt.Sprintf("%s and %s are on the same links in different prefixes, %s and %s: give both one prefix, or join the prefixes by a router, a switch with addresses in both",
			p.PortName(at.Node, at.Port), p.PortName(e.to.Node, e.to.Port), prefixList(&p.Nodes[at.Node].Ports[at.Port], e.address.Addr().Is6()), e.address.Masked())
	}
	return joinHint
}

const joinHint = "links and switches have to join them in one prefix, or routers (switches with addresses): hosts do not forward modelled traffic"

// sameDomain returns the interface of a host that is in the domain of another host's
// interface; its node is -1 if there is none. With bound only the interface from counts.
func sameDomain(p *Plan, domain [][]int, from End, bound bool, to End) End {
	for i := range p.Nodes[from.Node].Ports {
		if domain[from.Node][i] == domain[to.Node][to.Port] && (!bound || i == from.Port) {
			return End{from.Node, i}
		}
	}
	return End{-1, -1}
}

// prefixList lists the prefixes that a port has of an IP version.
func prefixList(p *Port, ipv6 bool) string {
	var all []string
	for _, a := range p.Addresses {
		if a.Addr().Is6() == ipv6 {
			all = append(all, a.Masked().String())
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, " and ")
}
