package fabric

import (
	"net/netip"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/switches/router"
	"github.com/weftlab/weft/wire"
)

// Neighbours returns the next hops of a station's packets on its link, for a
// host that does not use ARP or neighbour discovery.
func (f *Fabric) Neighbours(s *Station) Neighbours { return Neighbours{f, s} }

// Neighbours implements tuntap.Neighbours.
type Neighbours struct {
	fabric  *Fabric
	station *Station
}

// MAC returns the Ethernet address of the host with an IP address, or of the
// router that leads there.
func (n Neighbours) MAC(ip netip.Addr) (wire.MAC, bool) {
	f, s := n.fabric, n.station
	if f.routers == nil {
		return f.directory.MAC(ip)
	}
	next, ok := f.routers.reach.Next(s.Node, s.Index, ip)
	if !ok {
		// A program in the host may have added a route.
		next, ok = f.routers.first(s.Node, s.Index)
	}
	if !ok {
		return 0, false
	}
	return f.mac(next), true
}

// first returns the first router port in the domain of a host's interface.
func (r *routers) first(node, port int) (plan.End, bool) {
	e, ok := r.firsts[r.reach.Domain[node][port]]
	return e, ok
}

func (f *Fabric) mac(e plan.End) wire.MAC {
	m := f.Plan.Nodes[e.Node].Ports[e.Port].MAC
	return wire.ReadMAC(m[:])
}

// setFirstHop prepares a packet that a switch itself generated, which has the Dest of a
// station and no bytes, for the path through routers.
func (f *Fabric) setFirstHop(node int, p *packet.Packet) {
	r, s := f.routers, f.station(p.Dest)
	if r == nil || s == nil {
		return
	}
	p.To = f.number(s, p.Version)
	here := r.reach.Domain[node][0]
	if f.Plan.Nodes[node].Router != nil || r.reach.Domain[s.Node][s.Index] == here {
		return
	}
	if e, ok := r.firsts[here]; ok {
		p.Dest = r.ends[e.Node][e.Port]
	}
}

// turn prepares a packet that has been turned round for the path back through
// routers: as an Ethernet frame it goes to the station that sent it last.
func (f *Fabric) turn(p *packet.Packet) {
	r := f.routers
	if e := r.addresses[p.To].Endpoint; e >= 0 {
		p.Origin = e
	}
	if ethernet := p.Ethernet(); ethernet != nil {
		p.To = r.numbers[router.Destination(ethernet[p.L3:])]
	} else if to, ok := p.Destination(); ok {
		p.To = r.numbers[to]
	} else if s := f.station(p.Dest); s != nil {
		p.To = f.number(s, p.Version)
	}
	if to, _ := p.MACs(); to != 0 {
		if e, ok := f.directory.byMAC[to]; ok {
			p.Dest = e
		}
	}
}

// station returns the station of an endpoint; nil for other endpoints.
func (f *Fabric) station(e packet.Endpoint) *Station {
	if e < 0 || int(e) >= len(f.Stations) {
		return nil
	}
	return f.Stations[e]
}

// number returns the packet.To of a station's first address of an IP version, 0
// if it has none.
func (f *Fabric) number(s *Station, version uint8) int32 {
	a, ok := plan.AddressOf(&f.Plan.Nodes[s.Node].Ports[s.Index], version == 6)
	if !ok {
		return 0
	}
	return f.routers.numbers[a]
}
