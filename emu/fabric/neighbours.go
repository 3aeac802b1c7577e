package fabric

import (
	"net/netip"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/spec"
	"github.com/weftlab/weft/protocols/wire"
)

// Neighbours is where a station's packets go on its link, for a host that does
// not ask by ARP or neighbour discovery.
func (f *Fabric) Neighbours(s *Station) Neighbours { return Neighbours{f, s} }

// Neighbours implements tuntap.Neighbours.
type Neighbours struct {
	fabric  *Fabric
	station *Station
}

// MAC gives the Ethernet address of who has an IP address, or of the router
// that leads there.
func (n Neighbours) MAC(ip netip.Addr) (wire.MAC, bool) {
	f, s := n.fabric, n.station
	if f.routers == nil {
		return f.directory.MAC(ip)
	}
	next, ok := f.routers.reach.Next(s.Node, s.Index, ip)
	if !ok {
		// Perhaps by a route that a program in the host has added.
		next, ok = f.routers.first(s.Node, s.Index)
	}
	if !ok {
		return 0, false
	}
	return f.mac(next), true
}

// first is the first port of a router in the domain of a host's interface.
func (r *routers) first(node, port int) (spec.End, bool) {
	e, ok := r.firsts[r.reach.Domain[node][port]]
	return e, ok
}

func (f *Fabric) mac(e spec.End) wire.MAC {
	m := f.Plan.Nodes[e.Node].Ports[e.Port].MAC
	return wire.ReadMAC(m[:])
}

// aim prepares a packet of a switch's own, which has the Dest of a station and
// no bytes, for the way through routers.
func (f *Fabric) aim(node int, p *packet.Packet) {
	r := f.routers
	if r == nil || p.Dest < 0 || int(p.Dest) >= len(f.Stations) {
		return
	}
	s := f.Stations[p.Dest]
	if a, ok := spec.AddressOf(&f.Plan.Nodes[s.Node].Ports[s.Index], p.Version == 6); ok {
		p.To = r.numbers[a]
	}
	here := r.reach.Domain[node][0]
	if f.Plan.Nodes[node].Router != nil || r.reach.Domain[s.Node][s.Index] == here {
		return
	}
	if e, ok := r.firsts[here]; ok {
		p.Dest = r.ends[e.Node][e.Port]
	}
}
