package plan

import (
	"net/netip"
	"slices"
)

// Routed reports whether the plan has routers.
func (p *Plan) Routed() bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Router != nil })
}

// Reach knows how the hosts of a plan reach addresses: by the routes that their kernels
// have when the run begins. A host has a route to the prefix of each address of a linked
// interface, and the routes of its file. Plan.Reach makes it.
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

// AnyPort stands for any interface of a host: its routes choose one.
const AnyPort = -1

// Lookup returns the interface of a host by which a packet to an address leaves, and the
// next hop: the address itself if it is in a prefix of the interface, else a gateway. The
// longest prefix wins; of equal ones that of the first interface, and a prefix of an
// interface before a route of the file, as in Linux. With a port other than AnyPort only
// routes through that interface count, as for a socket that is bound to it
// (SO_BINDTODEVICE). It returns false if there is no route. The host's own addresses are
// treated like others.
func (r *Reach) Lookup(host, port int, to netip.Addr) (out int, next netip.Addr, ok bool) {
	out, bits := r.connected(host, port, to)
	next = to
	for _, route := range r.plan.Nodes[host].Routes {
		if route.To.Bits() <= bits || !route.To.Contains(to) {
			continue
		}
		// The interface of a route follows from its gateway, among all interfaces.
		if i, has := r.connected(host, AnyPort, route.Via); has >= 0 && (port == AnyPort || i == port) {
			out, next, bits = i, route.Via, route.To.Bits()
		}
	}
	return out, next, bits >= 0
}

// connected returns the interface with the longest prefix that contains an address, and
// the length of the prefix; -1 if there is none.
func (r *Reach) connected(host, port int, to netip.Addr) (out, bits int) {
	bits = -1
	ports := r.plan.Nodes[host].Ports
	for i := range ports {
		if port != AnyPort && i != port || ports[i].Link < 0 {
			continue
		}
		for _, a := range ports[i].Addresses {
			if a.Bits() > bits && a.Contains(to) {
				out, bits = i, a.Bits()
			}
		}
	}
	return out, bits
}

// Next returns the port that a host's interface sends a packet for an address to: the
// port with the address, or that of the gateway on the host's longest route through the
// interface. If the host has no such route, a program may have added one: then it is the
// port with the address, if it is in the interface's domain.
func (r *Reach) Next(node, port int, to netip.Addr) (End, bool) {
	_, next, ok := r.Lookup(node, port, to)
	if !ok {
		next = to
	}
	e, known := r.owner[next]
	return e, known && e != End{node, port} && r.Domain[e.Node][e.Port] == r.Domain[node][port]
}

// Leads reports whether the routes of a host lead its packets to an address of another host,
// possibly through hosts that forward.
func (r *Reach) Leads(from int, to netip.Addr) bool {
	e, known := r.owner[to]
	if !known {
		return false
	}
	_, _, _, bad := r.findEgress(from, AnyPort, e, r.prefixOf(e, to))
	return bad == nil || bad.reason == throughHost
}

// RoutedPart returns the number of what links, switches and routers join to a host, if its one
// route of an IP version, beside that to the prefix of one of its interfaces, is a default route
// to a router on that interface's links. Paths lead between all hosts of a part, as long as no
// prefix of one domain lies in that of another.
func (r *Reach) RoutedPart(host, port int, ipv6 bool) (part int, ok bool) {
	var only *Route
	for i := range r.plan.Nodes[host].Routes {
		if route := &r.plan.Nodes[host].Routes[i]; route.Via.Is6() == ipv6 {
			if only != nil || route.To.Bits() > 0 {
				return 0, false
			}
			only = route
		}
	}
	if only == nil {
		return 0, false
	}
	out, bits := r.connected(host, AnyPort, only.Via)
	via, known := r.owner[only.Via]
	ok = known && bits >= 0 && out == port && r.Domain[via.Node][via.Port] == r.Domain[host][port] && r.plan.Nodes[via.Node].Router != nil
	return r.joined[host][port], ok
}

// Pair is two hosts between which modelled packets go. A port is an interface that the
// packets have to leave or arrive by, or AnyPort: then the sender's routes choose among
// all addresses of the receiver, in the order of its interfaces, and the first one wins
// to which a path leads, if possible one on which replies come back.
type Pair struct {
	From, To         int // hosts
	FromPort, ToPort int // interfaces, or AnyPort
	IPv6             bool
}

// Path is how modelled packets go from one host to another.
type Path struct {
	From, To            End        // interfaces of the hosts
	Source, Destination netip.Addr // addresses of them
	First               End        // the port that packets go to first: To, or a router's
	// NoReturn is why replies do not come back from Destination to Source by the same two
	// interfaces; nil if they do.
	NoReturn *PathError
}

// Path returns the path of modelled packets between two hosts. The error is a *PathError.
func (r *Reach) Path(p Pair) (Path, error) {
	var oneWay *Path // the first one on which no replies come back
	var why *PathError
	ports := r.plan.Nodes[p.To].Ports
	for i := range ports {
		if p.ToPort != AnyPort && i != p.ToPort || ports[i].Link < 0 {
			continue
		}
		for _, a := range ports[i].Addresses {
			if a.Addr().Is6() != p.IPv6 {
				continue
			}
			path, bad := r.pathTo(p.From, p.FromPort, End{p.To, i}, a)
			switch {
			case bad != nil && why == nil:
				why = bad
			case bad != nil:
			case path.NoReturn == nil:
				return path, nil
			case oneWay == nil:
				oneWay = &path
			}
		}
	}
	if oneWay != nil {
		return *oneWay, nil
	}
	if why == nil {
		why = &PathError{reason: noAddress, plan: r.plan, from: End{p.From, max(p.FromPort, 0)}, to: End{p.To, max(p.ToPort, 0)}, bound: p.ToPort != AnyPort, ipv6: p.IPv6}
	}
	return Path{}, why
}

// pathTo returns the path from a host to an address of another host's interface.
func (r *Reach) pathTo(from, port int, to End, address netip.Prefix) (Path, *PathError) {
	p := Path{To: to, Destination: address.Addr()}
	var bad *PathError
	if p.From, p.First, p.Source, bad = r.findEgress(from, port, to, address); bad != nil {
		return Path{}, bad
	}
	_, _, _, p.NoReturn = r.findEgress(to.Node, to.Port, p.From, r.prefixOf(p.From, p.Source))
	return p, nil
}

// findEgress follows a host's routes to an address of another host's interface.
func (r *Reach) findEgress(from, port int, to End, address netip.Prefix) (out, first End, source netip.Addr, bad *PathError) {
	i, next, ok := r.Lookup(from, port, address.Addr())
	fail := func(reason pathReason) *PathError {
		return &PathError{reason: reason, plan: r.plan, from: End{from, i}, bound: port != AnyPort, to: to, address: address, gateway: next, via: first}
	}
	if !ok {
		if i = port; i == AnyPort {
			i = 0
		}
		return out, first, source, fail(noRoute)
	}
	out, first = End{from, i}, to
	if next != address.Addr() {
		if first, ok = r.owner[next]; !ok || first.Node == from {
			return out, first, source, fail(noGateway)
		}
	}
	switch {
	case r.Domain[first.Node][first.Port] != r.Domain[from][i] && next == address.Addr():
		return out, first, source, fail(elsewhere)
	case r.Domain[first.Node][first.Port] != r.Domain[from][i]:
		return out, first, source, fail(noGateway)
	case first != to && r.plan.Nodes[first.Node].Router == nil:
		return out, first, source, fail(throughHost)
	case r.joined[from][i] != r.joined[to.Node][to.Port]:
		return out, first, source, fail(apart)
	}
	if source = r.source(out, next); !source.IsValid() {
		return out, first, source, fail(noSource)
	}
	return out, first, source, nil
}

// Source returns the address that packets from a host's interface to an address have; the
// zero Addr if the interface has none of its IP version.
func (r *Reach) Source(out End, to netip.Addr) netip.Addr {
	_, next, ok := r.Lookup(out.Node, out.Port, to)
	if !ok {
		next = to
	}
	return r.source(out, next)
}

// source returns the address that packets from an interface to a next hop have: one whose
// prefix contains the next hop, or else the first one of its IP version.
func (r *Reach) source(out End, next netip.Addr) (source netip.Addr) {
	for _, a := range r.plan.Nodes[out.Node].Ports[out.Port].Addresses {
		switch {
		case a.Contains(next):
			return a.Addr()
		case !source.IsValid() && a.Addr().Is6() == next.Is6():
			source = a.Addr()
		}
	}
	return source
}

// prefixOf returns an address of an interface with its prefix.
func (r *Reach) prefixOf(e End, a netip.Addr) netip.Prefix {
	for _, p := range r.plan.Nodes[e.Node].Ports[e.Port].Addresses {
		if p.Addr() == a {
			return p
		}
	}
	return netip.PrefixFrom(a, a.BitLen())
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
