// Package routing computes which port a packet for an address leaves by. From a plan and
// the state of its links it makes the tables of switches and routers, and it knows where
// packets go that enter the network. It has no clock and moves no packets.
package routing

import (
	"fmt"
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
	reach   *plan.Reach
	hosts   int                 // how many of Endpoints are ports of hosts
	ends    [][]packet.Endpoint // by node and port; not set for plain switches
	routers *routers            // nil without routers
}

// NewTopology returns the topology of a plan.
func NewTopology(p *plan.Plan) *Topology {
	t := &Topology{Directory: newDirectory(), plan: p, reach: p.Reach(), ends: make([][]packet.Endpoint, len(p.Nodes))}
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
	t.Directory.domain = append(t.Directory.domain, t.reach.Domain[e.Node][e.Port])
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
	d := t.reach.Domain
	return d[a.Node][a.Port] == d[b.Node][b.Port]
}

// isPlain reports whether a node is a switch but not a router.
func (t *Topology) isPlain(node int) bool {
	n := &t.plan.Nodes[node]
	return n.Kind == plan.Switch && n.Router == nil
}

// Path returns how modelled packets go from one host to another. It panics if the plan has
// no path.
func (t *Topology) Path(pair plan.Pair) plan.Path {
	p, err := t.reach.Path(pair)
	if err != nil {
		panic(fmt.Sprintf("a plan with traffic without a path from %s to %s: %v", t.plan.Nodes[pair.From].Name, t.plan.Nodes[pair.To].Name, err))
	}
	return p
}

// TryPath is Path for pairs of hosts that may have no path.
func (t *Topology) TryPath(pair plan.Pair) (plan.Path, error) { return t.reach.Path(pair) }

// Source returns the address that packets from a host's interface to an address have; false
// if the interface has none of its IP version.
func (t *Topology) Source(e plan.End, to netip.Addr) (netip.Addr, bool) {
	a := t.reach.Source(e, to)
	return a, a.IsValid()
}
