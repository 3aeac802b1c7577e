package fabric

import (
	"net/netip"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// hostNetwork is the fabric as one interface of a host sees it. It is its Network.
type hostNetwork struct {
	fabric *Fabric
	end    plan.End
	paths  map[packet.Endpoint]linkPath // to other interfaces, found so far
}

// networkOf returns the network around an interface.
func networkOf(iface *hosts.Interface) *hostNetwork { return iface.Network.(*hostNetwork) }

// endOf returns an interface's port in the plan.
func endOf(iface *hosts.Interface) plan.End { return plan.End{Node: iface.Node, Port: iface.Index} }

// PathTo returns where packets to an address go.
func (n *hostNetwork) PathTo(to netip.Addr) (nicemu.Path, bool) {
	t := n.fabric.topology
	if e, ok := n.findNear(to); ok {
		return nicemu.Path{Dest: t.Endpoint(e), MAC: t.MAC(e)}, true
	}
	if to.Is6() && to.IsLinkLocalUnicast() {
		return nicemu.Path{}, false
	}
	hop, ok := t.Neighbours(n.end).FirstHop(to)
	return nicemu.Path(hop), ok
}

// SourceTo returns the source address of packets to an address.
func (n *hostNetwork) SourceTo(to netip.Addr) (netip.Addr, bool) {
	return n.fabric.topology.Source(n.end, to)
}

// InterfaceWith returns the interface that packets to an address are for.
func (n *hostNetwork) InterfaceWith(a netip.Addr) *hosts.Interface {
	end, ok := n.findPort(a)
	if !ok {
		return nil
	}
	return n.fabric.interfaceAt(end)
}

// TripTo returns the path to an address and back, as a rate control needs it when a flow begins.
func (n *hostNetwork) TripTo(to netip.Addr, size, ack units.Bytes) cc.Path {
	return n.trip(n.InterfaceWith(to), size, ack)
}

// TripOfFlow returns the path of a modelled flow and back.
func (n *hostNetwork) TripOfFlow(flow int32, size, ack units.Bytes) cc.Path {
	return n.trip(n.fabric.flowEnds[flow][1].iface, size, ack)
}

// EndsOfFlow returns the addresses of a modelled flow.
func (n *hostNetwork) EndsOfFlow(flow int32) (from, to netip.Addr) {
	return n.fabric.flowAddresses(flow)
}

// trip returns the path to another interface and back; the zero Path if there is none.
func (n *hostNetwork) trip(peer *hosts.Interface, size, ack units.Bytes) cc.Path {
	if peer == nil {
		return cc.Path{}
	}
	w, known := n.paths[peer.ID]
	if !known {
		if n.paths == nil {
			n.paths = map[packet.Endpoint]linkPath{}
		}
		w = n.fabric.pathBetween(n.fabric.interfaceAt(n.end), peer)
		n.paths[peer.ID] = w
	}
	if w == nil {
		return cc.Path{}
	}
	return cc.Path{RTT: w.carries(size, 0) + w.carries(ack, 0), Bottleneck: w.slowest(), Hops: len(w)}
}

// findNear returns the port on the links of the interface with an address that it got while
// the lab runs, or with a link-local one.
func (n *hostNetwork) findNear(a netip.Addr) (plan.End, bool) {
	neighbours := n.fabric.topology.Neighbours(n.end)
	for _, e := range n.fabric.added.holders(a) {
		if e != n.end && neighbours.Reaches(e) {
			return e, true
		}
	}
	if m, ok := nicemu.EthernetOf(a); ok {
		return neighbours.PortWithMAC(m)
	}
	return plan.End{}, false
}

// findPort returns the port that packets to an address are for.
func (n *hostNetwork) findPort(a netip.Addr) (plan.End, bool) {
	if e, ok := n.findNear(a); ok {
		return e, true
	}
	return n.fabric.topology.PortOf(a)
}

// holderOf returns the name of the port that packets to an address are for, "" if there is none.
func (n *hostNetwork) holderOf(a netip.Addr) string {
	end, ok := n.findPort(a)
	if !ok {
		return ""
	}
	return n.fabric.Plan.PortName(end.Node, end.Port)
}
