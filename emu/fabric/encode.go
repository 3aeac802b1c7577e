package fabric

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// encoder makes the wire bytes of packets of modelled flows, which have none
// until somebody looks. The payload begins with the flow's number, the packet's
// number in it (4 bytes each) and the time it was sent in nanoseconds (8), as
// far as it has room; the rest is zero. A trimmed packet is the beginning of
// what the whole one was.
type encoder struct {
	fabric *Fabric
	buf    gopacket.SerializeBuffer
}

// frame gives the bytes of p, good until the next call.
func (e *encoder) frame(p *packet.Packet) []byte {
	from, to := e.fabric.flowEnds[p.Flow][0], e.fabric.flowEnds[p.Flow][1]
	if p.Returned {
		from, to = to, from
	}
	size := p.Size
	if p.Trimmed {
		size = p.Whole
	}
	payload := make([]byte, size-headersOf(p.Version))
	var head [16]byte
	binary.BigEndian.PutUint32(head[0:], uint32(p.Flow))
	binary.BigEndian.PutUint32(head[4:], p.Seq)
	binary.BigEndian.PutUint64(head[8:], uint64(p.Born/units.Nanosecond))
	copy(payload, head[:])
	return e.datagram(p, e.address(from, p.Version), e.address(to, p.Version), payload)
}

// ip gives the bytes of an IP packet with zeros behind its headers: UDP, if its
// protocol is that.
func (e *encoder) ip(p *packet.Packet, src, dst net.IP) []byte {
	if p.Proto == wire.ProtoUDP {
		return e.datagram(p, src, dst, make([]byte, p.Size-headersOf(p.Version)))
	}
	header, _ := network(p, src, dst)
	return e.serialize(p, header, gopacket.Payload(make([]byte, p.Size-headersOf(p.Version)+wire.UDPHeader)))
}

// ethernet gives the bytes of a frame with zeros behind its header.
func (e *encoder) ethernet(p *packet.Packet) []byte {
	return e.serialize(p, gopacket.Payload(make([]byte, p.Size-wire.EthernetHeader)))
}

// datagram gives the bytes of a UDP packet.
func (e *encoder) datagram(p *packet.Packet, src, dst net.IP, payload []byte) []byte {
	udp := &layers.UDP{SrcPort: layers.UDPPort(p.SrcPort), DstPort: layers.UDPPort(p.DstPort)}
	header, sum := network(p, src, dst)
	_ = udp.SetNetworkLayerForChecksum(sum)
	return e.serialize(p, header, udp, gopacket.Payload(payload))
}

// network makes the IP header of a packet, which is also part of the checksum of UDP.
func network(p *packet.Packet, src, dst net.IP) (gopacket.SerializableLayer, gopacket.NetworkLayer) {
	if p.Version == 4 {
		ip := &layers.IPv4{Version: 4, TTL: p.TTL, TOS: p.TOS, Id: p.IPID, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocol(p.Proto), SrcIP: src, DstIP: dst}
		return ip, ip
	}
	ip := &layers.IPv6{Version: 6, HopLimit: p.TTL, TrafficClass: p.TOS, FlowLabel: p.Label, NextHeader: layers.IPProtocol(p.Proto), SrcIP: src, DstIP: dst}
	return ip, ip
}

// serialize gives the beginning, as long as the packet is now, of an Ethernet header
// and what is behind it. The fields come from a
// packet that was built to be valid; there is no error left to find.
func (e *encoder) serialize(p *packet.Packet, behind ...gopacket.SerializableLayer) []byte {
	if e.buf == nil {
		e.buf = gopacket.NewSerializeBuffer()
	}
	eth := &layers.Ethernet{SrcMAC: hardwareAddr(p.Src), DstMAC: hardwareAddr(p.Dst), EthernetType: layers.EthernetType(p.Ether)}
	_ = gopacket.SerializeLayers(e.buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, append([]gopacket.SerializableLayer{eth}, behind...)...)
	return e.buf.Bytes()[:p.Size]
}

// address is the first address of one family that a station has.
func (e *encoder) address(s *Station, version uint8) net.IP {
	for _, a := range e.fabric.Plan.Nodes[s.Node].Ports[s.Index].Addresses {
		if a.Addr().Is4() == (version == 4) {
			return asIP(a.Addr())
		}
	}
	return nil
}

func asIP(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

func hardwareAddr(m wire.MAC) net.HardwareAddr {
	b := make(net.HardwareAddr, 6)
	m.Put(b)
	return b
}
