package tuntap

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/protocols/wire"
)

// Neighbours knows the Ethernet address of every IP address in the fabric.
type Neighbours interface {
	MAC(ip netip.Addr) (wire.MAC, bool)
}

// TUN is a device that carries IP packets. On the fabric it is an Ethernet
// station with a MAC of its own: what leaves gets an Ethernet header with the
// MAC of the destination, what arrives loses it, and requests for its
// addresses in ARP (RFC 826) and neighbour discovery (RFC 4861) are answered
// for it.
type TUN struct {
	device
	mac        wire.MAC
	addresses  []netip.Addr
	neighbours Neighbours
	unroutable uint64
	answered   uint64
}

// NewTUN takes over the fd of a TUN opened with IFF_NO_PI and without
// IFF_VNET_HDR, of a host with these addresses.
func NewTUN(fd, mtu int, pool *packet.Pool, mac wire.MAC, addresses []netip.Addr, n Neighbours, entry Entry) *TUN {
	t := &TUN{device: device{fd: fd, pool: pool, entry: entry}, mac: mac, addresses: addresses, neighbours: n}
	t.SetMTU(mtu)
	return t
}

// Unroutable counts packets of the host to unicast addresses that nobody in
// the fabric has. They never enter it.
func (t *TUN) Unroutable() uint64 { return t.unroutable }

// Answered counts the ARP and neighbour requests answered for the host.
func (t *TUN) Answered() uint64 { return t.answered }

// Poll reads up to max packets and lets them enter the fabric at now. It
// returns how many it read.
func (t *TUN) Poll(now units.Time, max int) int {
	for i := range max {
		p := t.pool.NewFrame(t.room)
		n := t.read(p.Frame[wire.EthernetHeader:])
		if n == 0 {
			t.pool.Free(p)
			return i
		}
		p.Frame = p.Frame[:wire.EthernetHeader+n]
		if !t.addEthernet(p.Frame) {
			t.unroutable++
			t.pool.Free(p)
			continue
		}
		t.entry(now, p)
	}
	return max
}

// addEthernet writes the header before the IP packet in f.
func (t *TUN) addEthernet(f []byte) bool {
	ip := f[wire.EthernetHeader:]
	var dst netip.Addr
	var ether uint16
	switch {
	case ip[0]>>4 == 4 && len(ip) >= wire.IPv4Header:
		dst, ether = netip.AddrFrom4([4]byte(ip[16:20])), wire.EtherTypeIPv4
	case ip[0]>>4 == 6 && len(ip) >= wire.IPv6Header:
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
	mac.Put(f)
	t.mac.Put(f[6:])
	binary.BigEndian.PutUint16(f[12:], ether)
	return true
}

// groupMAC maps an address of a group to its MAC (RFC 1112 §6.4, RFC 2464
// §7); it reports false for unicast.
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

// Deliver strips Ethernet and writes the packet to the host, answers a
// request for the host's addresses, or ignores what is not for the host, as a
// NIC would. It reports false only when the host's kernel refused the packet.
// The packet stays the caller's.
func (t *TUN) Deliver(now units.Time, p *packet.Packet) bool {
	if dst := wire.ReadMAC(p.Frame); dst != t.mac && !dst.Multicast() {
		return true
	}
	if reply := t.answer(p); reply != nil {
		r := t.pool.NewFrame(len(reply))
		copy(r.Frame, reply)
		t.answered++
		t.entry(now, r)
		return true
	}
	if p.Version == 0 {
		return true
	}
	return t.write(p.Frame[p.L3:]) == nil
}
