// Package routing computes which port a packet for an address leaves by. From a plan and
// the state of its links it makes the tables of switches and routers, and it knows where
// packets go that enter the network. It has no clock and moves no packets.
package routing

import (
	"net/netip"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// Topology is what routing needs of a plan, with numbers for ports and addresses. It does
// not change, so any number of goroutines may use it.
type Topology struct {
	// Endpoints is the port of each packet.Endpoint: the ports of hosts, in the order of
	// nodes and ports, then the ports of routers.
	Endpoints []plan.End
	Directory *Directory

	plan    *plan.Plan
	domains [][]int             // plan.Plan.Domains
	hosts   int                 // how many of Endpoints are ports of hosts
	ends    [][]packet.Endpoint // by node and port; not set for plain switches
	routers *routers            // nil without routers
}

// NewTopology returns the topology of a plan.
func NewTopology(p *plan.Plan) *Topology {
	t := &Topology{Directory: newDirectory(), plan: p, domains: p.Domains(), ends: make([][]packet.Endpoint, len(p.Nodes))}
	for n := range p.Nodes {
		node := &p.Nodes[n]
		t.ends[n] = make([]packet.Endpoint, len(node.Ports))
		if node.Kind == plan.Switch {
			continue
		}
		for i := range node.Ports {
			t.addEndpoint(plan.End{Node: n, Port: i})
		}
	}
	t.hosts = len(t.Endpoints)
	if p.Routed() {
		t.addRouters()
	}
	return t
}

// addEndpoint numbers a port and its addresses.
func (t *Topology) addEndpoint(e plan.End) {
	id := packet.Endpoint(len(t.Endpoints))
	t.ends[e.Node][e.Port] = id
	t.Endpoints = append(t.Endpoints, e)
	t.Directory.domain = append(t.Directory.domain, t.domains[e.Node][e.Port])
	t.Directory.add(id, t.MAC(e), t.plan.Nodes[e.Node].Ports[e.Port].Addresses)
}

// Routed reports whether there are routers.
func (t *Topology) Routed() bool { return t.routers != nil }

// Endpoint returns the endpoint of a port of a host or router.
func (t *Topology) Endpoint(e plan.End) packet.Endpoint { return t.ends[e.Node][e.Port] }

// MAC returns the Ethernet address of a port.
func (t *Topology) MAC(e plan.End) wire.MAC {
	m := t.plan.Nodes[e.Node].Ports[e.Port].MAC
	return wire.ReadMAC(m[:])
}

// PortOf returns the port of a host or router that has an address.
func (t *Topology) PortOf(a netip.Addr) (plan.End, bool) {
	e, ok := t.Directory.byIP[a]
	if !ok {
		return plan.End{}, false
	}
	return t.Endpoints[e], true
}

// Number returns the packet.To of an address; 0 without routers, or if nobody has it.
func (t *Topology) Number(a netip.Addr) int32 {
	if t.routers == nil {
		return 0
	}
	return t.routers.numbers[a]
}

// OnLink reports whether frames from one port reach another without routers.
func (t *Topology) OnLink(a, b plan.End) bool {
	if t.routers == nil {
		return true
	}
	d := t.routers.reach.Domain
	return d[a.Node][a.Port] == d[b.Node][b.Port]
}

// isPlain reports whether a node is a switch but not a router.
func (t *Topology) isPlain(node int) bool {
	n := &t.plan.Nodes[node]
	return n.Kind == plan.Switch && n.Router == nil
}

// Path returns the interfaces at the ends of modelled traffic between two hosts, and the
// port that its packets go to first. It panics if the plan has no path.
func (t *Topology) Path(a, b int, ipv6 bool) (from, to, first plan.End) {
	if t.routers == nil {
		from, to = t.interfaceOf(a, ipv6), t.interfaceOf(b, ipv6)
		return from, to, to
	}
	from, to, first, ok := t.routers.reach.Path(a, b, ipv6)
	if !ok {
		panic("a plan with traffic without a path from " + t.plan.Nodes[a].Name + " to " + t.plan.Nodes[b].Name)
	}
	return from, to, first
}

// interfaceOf returns a host's first connected interface with an address of an IP version.
// It panics if there is none.
func (t *Topology) interfaceOf(host int, ipv6 bool) plan.End {
	node := &t.plan.Nodes[host]
	for i := range node.Ports {
		p := &node.Ports[i]
		if _, ok := plan.AddressOf(p, ipv6); ok && p.Link >= 0 {
			return plan.End{Node: host, Port: i}
		}
	}
	panic("a plan with a flow of a host without an address: " + node.Name)
}
