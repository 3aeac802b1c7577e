package routing

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// Neighbours returns the next hops of packets of a host's interface on its link, for a host
// that does not use ARP or neighbour discovery.
func (t *Topology) Neighbours(e plan.End) Neighbours { return Neighbours{t, e} }

// Neighbours implements tuntap.Neighbours.
type Neighbours struct {
	topology *Topology
	end      plan.End
}

// MAC returns the Ethernet address of the host with an IP address, or of the
// router that leads there. Without routers it also returns that of a host behind another
// link if the address is in the interface's prefix: a program of a host between them may
// pass frames on, as a bridge does, and answers to ARP would come that way.
func (n Neighbours) MAC(ip netip.Addr) (wire.MAC, bool) {
	t, e := n.topology, n.end
	next, ok := t.reach.Next(e.Node, e.Port, ip)
	if !ok && t.routers != nil {
		// A program in the host may have added a route.
		next, ok = t.first(e)
	}
	if !ok && t.routers == nil && t.isInPrefix(e, ip) {
		next, ok = t.PortOf(ip)
	}
	if !ok {
		return 0, false
	}
	return t.MAC(next), true
}

// isInPrefix reports whether an address is in the prefix of one of an interface's addresses.
func (t *Topology) isInPrefix(e plan.End, ip netip.Addr) bool {
	return slices.ContainsFunc(t.plan.Nodes[e.Node].Ports[e.Port].Addresses, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// FirstHop is where a host's packets to an address go.
type FirstHop struct {
	Dest packet.Endpoint // where the Ethernet frame goes
	To   int32           // packet.Packet.To
	MAC  wire.MAC        // of Dest
}

// FirstHop returns where packets to an address go; false if nobody leads there.
func (n Neighbours) FirstHop(to netip.Addr) (hop FirstHop, ok bool) {
	if hop.MAC, ok = n.MAC(to); !ok {
		return FirstHop{}, false
	}
	if hop.Dest, ok = n.topology.Directory.byMAC[hop.MAC]; !ok {
		return hop, false
	}
	hop.To = n.topology.Number(to)
	return hop, true
}

// first returns the first router port in the domain of a host's interface.
func (t *Topology) first(e plan.End) (plan.End, bool) {
	first, ok := t.routers.firsts[t.reach.Domain[e.Node][e.Port]]
	return first, ok
}

// Reaches reports whether links and switches alone lead to a port.
func (n Neighbours) Reaches(e plan.End) bool {
	d := n.topology.reach.Domain
	return d[e.Node][e.Port] == d[n.end.Node][n.end.Port]
}

// PortWithMAC returns the port of a host to which links and switches alone lead, by its Ethernet
// address.
func (n Neighbours) PortWithMAC(m wire.MAC) (plan.End, bool) {
	t := n.topology
	e, ok := t.Directory.byMAC[m]
	if !ok || int(e) >= t.hosts || t.Endpoints[e] == n.end || !n.Reaches(t.Endpoints[e]) {
		return plan.End{}, false
	}
	return t.Endpoints[e], true
}
