package tuntap

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Neighbours knows the Ethernet address of every IP address in the fabric.
type Neighbours interface {
	MAC(ip netip.Addr) (wire.MAC, bool)
}

// TUN is a device that carries IP packets. On the fabric it is an Ethernet station
// with its own MAC. Packets from the host get an Ethernet header with the MAC of the
// destination, packets to the host lose it, and ARP (RFC 826) and neighbour
// discovery (RFC 4861) requests for the host's addresses are answered on its behalf.
type TUN struct {
	device
	mac        wire.MAC
	addresses  []netip.Addr
	neighbours Neighbours
	unroutable uint64
	answered   uint64
}

// NewTUN takes over the fd of a TUN of a host with these addresses.
func NewTUN(c Config, mac wire.MAC, addresses []netip.Addr, n Neighbours) *TUN {
	t := &TUN{device: device{Config: c, front: wire.EthernetHeader}, mac: mac, addresses: addresses, neighbours: n}
	t.dress = t.addHeader
	t.SetMTU(c.MTU)
	if c.Offload {
		t.offload = newOffload(&t.device)
	}
	return t
}

// UnroutablePackets returns the number of packets from the host to unicast addresses that
// do not exist in the fabric. They never enter it.
func (t *TUN) UnroutablePackets() uint64 { return t.unroutable }

// AnsweredRequests returns the number of ARP and neighbour requests answered for the host.
func (t *TUN) AnsweredRequests() uint64 { return t.answered }

// addHeader writes the Ethernet header before the IP packet in f. It reports false
// if no station has the destination address.
func (t *TUN) addHeader(f []byte) bool {
	if !t.addEthernet(f) {
		t.unroutable++
		return false
	}
	return true
}

// addEthernet writes the header before the IP packet in f.
func (t *TUN) addEthernet(f []byte) bool {
	ip := f[wire.EthernetHeader:]
	var dst netip.Addr
	var ether uint16
	switch {
	case len(ip) >= wire.IPv4Header && ip[0]>>4 == 4:
		dst, ether = netip.AddrFrom4([4]byte(ip[16:20])), wire.EtherTypeIPv4
	case len(ip) >= wire.IPv6Header && ip[0]>>4 == 6:
		dst, ether = netip.AddrFrom16([16]byte(ip[24:40])), wire.EtherTypeIPv6
	default:
		return false
	}
	mac, ok := groupMAC(dst)
	if !ok {
		if mac, ok = t.neighbours.MAC(dst); !ok {
			return false
		}
	}
	mac.EncodeTo(f)
	t.mac.EncodeTo(f[6:])
	binary.BigEndian.PutUint16(f[12:], ether)
	return true
}

// groupMAC maps a group address to its MAC (RFC 1112 §6.4, RFC 2464 §7); it reports
// false for unicast.
func groupMAC(ip netip.Addr) (wire.MAC, bool) {
	switch {
	case ip.Is4() && ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return wire.Broadcast, true
	case ip.Is4() && ip.IsMulticast():
		b := ip.As4()
		return 0x01005e000000 | wire.MAC(binary.BigEndian.Uint32(b[:])&0x7fffff), true
	case ip.Is6() && ip.IsMulticast():
		b := ip.As16()
		return 0x333300000000 | wire.MAC(binary.BigEndian.Uint32(b[12:])), true
	}
	return 0, false
}

// DeliverPacket strips the Ethernet header and gives the packet to the host, answers a
// request for one of the host's addresses, or ignores a packet for another MAC, as a
// NIC would. It takes ownership of the packet.
func (t *TUN) DeliverPacket(now units.Time, p *packet.Packet) {
	if dst, _ := p.MACs(); dst != t.mac && !dst.IsMulticast() {
		t.Pool.Free(p)
		return
	}
	if reply := t.replyTo(p); reply != nil {
		t.Pool.Free(p)
		r := t.Pool.NewFrame(len(reply))
		copy(r.Frame, reply)
		t.answered++
		t.enterFrame(now, r)
		return
	}
	if p.Version == 0 {
		t.Pool.Free(p)
		return
	}
	t.deliverPacket(now, p)
}

// DeliverTrain strips the Ethernet headers and gives the packets of a packet.Train to the host, or
// ignores them. They are TCP or UDP, so there is nothing to answer.
func (t *TUN) DeliverTrain(now units.Time, p *packet.Packet) {
	if dst, _ := p.MACs(); dst != t.mac && !dst.IsMulticast() {
		t.Pool.Free(p)
		return
	}
	t.deliverTrain(now, p)
}
