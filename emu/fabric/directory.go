package fabric

import (
	"math"
	"net/netip"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/protocols/wire"
)

// Directory knows where every MAC and IP address of the fabric is. A packet's
// destination is looked up once, when it enters; switches forward by it.
type Directory struct {
	byMAC map[wire.MAC]packet.Endpoint
	byIP  map[netip.Addr]packet.Endpoint
	macs  map[netip.Addr]wire.MAC

	// In a fabric with routers, whose ports are the endpoints from stations on:
	stations packet.Endpoint
	numbers  map[netip.Addr]int32 // packet.To of every address
	domain   []int                // of every endpoint
}

func newDirectory() Directory {
	return Directory{
		byMAC: map[wire.MAC]packet.Endpoint{}, byIP: map[netip.Addr]packet.Endpoint{}, macs: map[netip.Addr]wire.MAC{},
		stations: math.MaxInt32,
	}
}

func (d *Directory) add(e packet.Endpoint, mac wire.MAC, addresses []netip.Prefix) {
	d.byMAC[mac] = e
	for _, a := range addresses {
		d.byIP[a.Addr()] = e
		d.macs[a.Addr()] = mac
	}
}

// MAC gives the Ethernet address of the station that has an IP address.
func (d *Directory) MAC(ip netip.Addr) (wire.MAC, bool) {
	m, ok := d.macs[ip]
	return m, ok
}

// Resolve finds the station that a frame is for, which has been parsed into p:
// by its MAC address, else (a host that uses a MAC of its own making) by its IP
// address; Flood for groups and for what nobody is known to have. Where it is
// for a router, To becomes the number of its IP destination. From is where the
// frame enters.
func (d *Directory) Resolve(frame []byte, p *packet.Packet, from packet.Endpoint) packet.Endpoint {
	p.To = 0
	mac := wire.ReadMAC(frame)
	if mac.Multicast() {
		if mac == wire.MACControlGroup && p.Ether == wire.EtherTypeMACControl {
			return packet.MACControl
		}
		return packet.Flood
	}
	e, ok := d.byMAC[mac]
	if ok && e < d.stations {
		return e
	}
	var dst netip.Addr
	switch l3 := frame[p.L3:]; p.Version {
	case 4:
		dst = netip.AddrFrom4([4]byte(l3[16:20]))
	case 6:
		dst = netip.AddrFrom16([16]byte(l3[24:40]))
	}
	if ok {
		p.To = d.numbers[dst]
		return e
	}
	if e, ok := d.byIP[dst]; ok && (d.domain == nil || d.domain[e] == d.domain[from]) {
		return e
	}
	return packet.Flood
}
