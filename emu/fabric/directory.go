package fabric

import (
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
}

func newDirectory() Directory {
	return Directory{map[wire.MAC]packet.Endpoint{}, map[netip.Addr]packet.Endpoint{}, map[netip.Addr]wire.MAC{}}
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
// address; Flood for groups and for what nobody is known to have.
func (d *Directory) Resolve(frame []byte, p *packet.Packet) packet.Endpoint {
	mac := wire.ReadMAC(frame)
	if mac.Multicast() {
		if mac == wire.MACControlGroup && p.Ether == wire.EtherTypeMACControl {
			return packet.MACControl
		}
		return packet.Flood
	}
	if e, ok := d.byMAC[mac]; ok {
		return e
	}
	var dst netip.Addr
	switch l3 := frame[p.L3:]; p.Version {
	case 4:
		dst = netip.AddrFrom4([4]byte(l3[16:20]))
	case 6:
		dst = netip.AddrFrom16([16]byte(l3[24:40]))
	default:
		return packet.Flood
	}
	if e, ok := d.byIP[dst]; ok {
		return e
	}
	return packet.Flood
}
