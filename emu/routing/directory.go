package routing

import (
	"math"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// Directory maps every MAC and IP address of the network to its endpoint. A
// packet's destination is looked up once, when it enters; switches forward by
// it.
type Directory struct {
	byMAC map[wire.MAC]packet.Endpoint
	byIP  map[netip.Addr]packet.Endpoint
	macs  map[netip.Addr]wire.MAC

	// In a network with routers, whose ports are the endpoints from routers on:
	routers packet.Endpoint
	numbers map[netip.Addr]int32 // packet.To of every address
	domain  []int                // of every endpoint
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

// Resolve finds the destination of a frame that has been parsed into p, as Find
// does, and sets To. From is where the frame enters. MAC control frames are for
// the port at the other end of the link.
func (d *Directory) Resolve(frame []byte, p *packet.Packet, from packet.Endpoint) packet.Endpoint {
	p.To = 0
	mac := wire.ReadMAC(frame)
	if mac == wire.MACControlGroup && p.Ether == wire.EtherTypeMACControl {
		return packet.MACControl
	}
	var dst netip.Addr
	switch l3 := frame[p.L3:]; p.Version {
	case 4:
		dst = netip.AddrFrom4([4]byte(l3[16:20]))
	case 6:
		dst = netip.AddrFrom16([16]byte(l3[24:40]))
	}
	e, to := d.Find(mac, dst, from)
	p.To = to
	return e
}

// Find returns the destination of a packet: by its MAC address, else by its IP
// address (for a host that made up its own MAC), which may be the zero Addr. It
// returns Flood for groups and for unknown destinations. If the destination is a
// router, to is the number of the IP destination, packet.Packet.To, else 0. From
// is where the packet enters.
func (d *Directory) Find(mac wire.MAC, dst netip.Addr, from packet.Endpoint) (e packet.Endpoint, to int32) {
	if mac.IsMulticast() {
		return packet.Flood, 0
	}
	e, ok := d.byMAC[mac]
	switch {
	case ok && e < d.routers:
		return e, 0
	case ok:
		return e, d.numbers[dst]
	}
	if e, ok := d.byIP[dst]; ok && (d.domain == nil || d.domain[e] == d.domain[from]) {
		return e, 0
	}
	return packet.Flood, 0
}
