package routing

import (
	"math"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// Directory maps every MAC and IP address of the lab file to its endpoint. A packet's
// destination is looked up once, when it enters, and switches forward by it; but switches
// look at the addresses of packets for which the lab file alone does not say where they go.
type Directory struct {
	byMAC map[wire.MAC]packet.Endpoint
	byIP  map[netip.Addr]packet.Endpoint
	macs  map[netip.Addr]wire.MAC

	domain []int // of every endpoint: its broadcast domain, as in plan.Plan.Domains

	// In a network with routers, whose ports are the endpoints from routers on:
	routers packet.Endpoint
	numbers map[netip.Addr]int32 // packet.To of every address
}

func newDirectory() *Directory {
	return &Directory{
		byMAC: map[wire.MAC]packet.Endpoint{}, byIP: map[netip.Addr]packet.Endpoint{}, macs: map[netip.Addr]wire.MAC{},
		routers: math.MaxInt32,
	}
}

func (d *Directory) add(e packet.Endpoint, mac wire.MAC, addresses []netip.Prefix) {
	d.byMAC[mac] = e
	for _, a := range addresses {
		d.byIP[a.Addr()] = e
		d.macs[a.Addr()] = mac
	}
}

// MAC returns the Ethernet address of the station with an IP address.
func (d *Directory) MAC(ip netip.Addr) (wire.MAC, bool) {
	m, ok := d.macs[ip]
	return m, ok
}

// Resolve finds the destination of a frame that has been parsed into p, and sets To. From is
// where the frame enters, and own the Ethernet address of that station.
//
// The destination is an endpoint if the frame is between two stations of the lab file that
// reach each other without routers, packet.Flood for a group, and packet.MACControl for a MAC
// control frame, which is for the port at the other end of the link. Any other frame is
// forwarded by its addresses at each switch: packet.ByMAC.
func (d *Directory) Resolve(frame []byte, p *packet.Packet, from packet.Endpoint, own wire.MAC) packet.Endpoint {
	p.To = 0
	dst := wire.ReadMAC(frame)
	if dst == wire.MACControlGroup && p.Ether == wire.EtherTypeMACControl {
		return packet.MACControl
	}
	foreign := wire.ReadMAC(frame[wire.MACLen:]) != own
	if dst.IsMulticast() {
		if foreign || dst.Reserved() {
			return packet.ByMAC
		}
		return packet.Flood
	}
	e, ok := d.byMAC[dst]
	if ok && e >= d.routers {
		p.To = d.numbers[ipDestination(frame, p)]
	}
	if !ok || foreign || d.domain[e] != d.domain[from] {
		return packet.ByMAC
	}
	return e
}

// ipDestination returns the IP destination of a frame that has been parsed into p; the zero
// Addr if it has none.
func ipDestination(frame []byte, p *packet.Packet) netip.Addr {
	switch l3 := frame[p.L3:]; p.Version {
	case 4:
		return netip.AddrFrom4([4]byte(l3[16:20]))
	case 6:
		return netip.AddrFrom16([16]byte(l3[24:40]))
	}
	return netip.Addr{}
}

// Stations returns the endpoints in the broadcast domain of a plain switch, by address.
func (t *Topology) Stations(node int) Stations {
	s := Stations{directory: t.Directory}
	if ports := t.reach.Domain[node]; len(ports) > 0 { // all of them are in one domain
		s.domain = ports[0]
	}
	return s
}

// Stations implements switches.Stations.
type Stations struct {
	directory *Directory
	domain    int
}

// ByMAC returns the endpoint that has an Ethernet address.
func (s Stations) ByMAC(m wire.MAC) (packet.Endpoint, bool) {
	e, ok := s.directory.byMAC[m]
	return e, ok && s.directory.domain[e] == s.domain
}

// ByIP returns the endpoint that has an IP address.
func (s Stations) ByIP(a netip.Addr) (packet.Endpoint, bool) {
	e, ok := s.directory.byIP[a]
	return e, ok && s.directory.domain[e] == s.domain
}
