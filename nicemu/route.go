package nicemu

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// defaultTTL applies to address vectors with hop limit 0.
const defaultTTL = 64

// route is the route of packets to one address: an address vector, resolved.
type route struct {
	ends     *packet.Addresses
	path     Path
	hash     uint64
	port     uint16 // UDP source port
	labelled bool   // derived from a flow label
	tos, ttl uint8
	prio     uint8 // lane
	ack      uint8 // lane of acknowledgements
	ackTOS   uint8
	loop     bool  // to the NIC itself
	static   uint8 // rate of the address vector (qp.StaticRate)
}

// headersLen returns the length of a frame's headers in front of the BTH.
func (r *route) headersLen() units.Bytes {
	if r.ends.To.Is4() {
		return wire.EthernetHeader + wire.IPv4Header + wire.UDPHeader
	}
	return wire.EthernetHeader + wire.IPv6Header + wire.UDPHeader
}

// GID returns the identifier of an address.
func GID(a netip.Addr) qp.GID { return a.As16() }

// AddressOf returns the address of a GID.
func AddressOf(g qp.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// makeRoute makes the route of an address vector. local and remote are the queue pairs' numbers, from
// which the UDP source port is computed if the vector has no flow label.
func (d *Device) makeRoute(av *qp.AV, local, remote uint32) (route, error) {
	from, err := d.addressAt(int(av.SGIDIndex))
	if err != nil {
		return route{}, fmt.Errorf("sgid_index: %w", err)
	}
	to := AddressOf(av.DGID)
	if from.Is4() != to.Is4() {
		return route{}, fmt.Errorf("%w: the GID with index %d is %v, but dgid %v has the other IP version", syscall.EINVAL, av.SGIDIndex, from, to)
	}
	r := route{ends: packet.NewAddresses(from, to), tos: av.TrafficClass, ttl: av.HopLimit, port: sourcePort(av.FlowLabel, local, remote), labelled: av.FlowLabel != 0, static: av.StaticRate}
	if r.tos == 0 && !av.ClassSet {
		r.tos = d.settings.DSCP << 2
	}
	if d.traits.ECT {
		r.tos = r.tos&^3 | wire.ECT0
	}
	r.ackTOS = r.tos
	if a := d.settings.AckDSCP; a != nil {
		r.ackTOS = *a<<2 | r.tos&3
	}
	if r.ttl == 0 {
		r.ttl = defaultTTL
	}
	return r, d.locateDestination(&r)
}

// locateDestination finds the destination of a route.
func (d *Device) locateDestination(r *route) error {
	r.prio, r.ack = d.env.Priority[r.tos>>2], d.env.Priority[r.ackTOS>>2]
	if d.ownsAddress(r.ends.To) {
		r.loop, r.prio, r.ack = true, loopback, loopback
		return nil
	}
	switch {
	case r.ends.To.IsMulticast():
		r.path = Path{Dest: packet.Flood, MAC: groupMAC(r.ends.To)}
	default:
		path, ok := d.env.Path(r.ends.From, r.ends.To)
		if !ok {
			return fmt.Errorf("%w: nobody on the links of %v has the address %v or leads to it", syscall.EHOSTUNREACH, r.ends.From, r.ends.To)
		}
		r.path = path
	}
	r.hash = packet.FlowHash(packet.FoldAddress(r.ends.From), packet.FoldAddress(r.ends.To), wire.ProtoUDP, r.port, d.HashPort())
	return nil
}

// HashPort is the UDP destination port that goes into the hashes by which switches choose paths:
// all packets of a queue pair use it, with telemetry or without.
func (d *Device) HashPort() uint16 {
	if d.traits.Telemetry > 0 {
		return telemetry.Port
	}
	return roce.Port
}

// sourcePort returns the UDP source port that Linux computes from a flow label or, without one,
// from the numbers of two connected queue pairs (rdma_flow_label_to_udp_sport and
// rdma_calc_flow_label of include/rdma/ib_verbs.h).
func sourcePort(label, local, remote uint32) uint16 {
	if label == 0 {
		v := uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
		label = uint32(v & wire.MaxFlowLabel)
	}
	return uint16(0xc000 | (label&0x3fff ^ label>>14))
}

// portOf returns the UDP source port of an unconnected queue pair: a hash of its number, as in
// rdma_rxe (rxe_qp_init_req of Linux).
func portOf(number uint32) uint16 { return uint16(0xc000 + number*0x61c88647>>18) }

// groupMAC returns the Ethernet address of a multicast group (RFC 1112 §6.4, RFC 2464 §7).
func groupMAC(a netip.Addr) wire.MAC {
	if a.Is4() {
		b := a.As4()
		return 0x01005e<<24 | wire.MAC(b[1]&0x7f)<<16 | wire.MAC(b[2])<<8 | wire.MAC(b[3])
	}
	b := a.As16()
	return 0x3333<<32 | wire.MAC(b[12])<<24 | wire.MAC(b[13])<<16 | wire.MAC(b[14])<<8 | wire.MAC(b[15])
}

// fillHeaders fills in the headers below the BTH. bytes is the length of the UDP payload.
func (d *Device) fillHeaders(p *packet.Packet, r *route, bytes units.Bytes) {
	d.ipid++
	p.Size = r.headersLen() + bytes
	p.Hash, p.Dest, p.To = r.hash, r.path.Dest, r.path.To
	p.L3, p.Ether, p.Version = wire.EthernetHeader, wire.EtherTypeIPv4, 4
	if !r.ends.To.Is4() {
		p.Ether, p.Version = wire.EtherTypeIPv6, 6
	}
	p.TOS, p.TTL, p.IPID = r.tos, r.ttl, d.ipid // the flow label of IPv6 stays 0, as with rdma_rxe
	p.Proto, p.SrcPort, p.DstPort = wire.ProtoUDP, r.port, roce.Port
	p.Src, p.Dst = d.env.MAC, r.path.MAC
	p.RoCE.Addresses = r.ends
}
