package fabric

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// encoder makes the wire bytes of packets of modelled flows, which have none
// until they are looked at. The payload begins with the flow's number, the
// packet's number in the flow (4 bytes each) and the time it was sent in
// nanoseconds (8 bytes), as far as it has room; the rest is zero. A trimmed
// packet is the beginning of the whole one.
type encoder struct {
	fabric *Fabric
	buf    gopacket.SerializeBuffer
}

// frame returns the bytes of p, valid until the next call.
func (e *encoder) frame(p *packet.Packet) []byte {
	if e.buf == nil {
		e.buf = gopacket.NewSerializeBuffer()
	}
	from, to := e.fabric.flowEnds[p.Flow][0], e.fabric.flowEnds[p.Flow][1]
	if p.Returned {
		from, to = to, from
	}
	src, dst := asIP(from.address), asIP(to.address)
	udp := &layers.UDP{SrcPort: layers.UDPPort(p.SrcPort), DstPort: layers.UDPPort(p.DstPort)}
	var ip gopacket.SerializableLayer
	header := wire.IPv4Header
	if p.Version == 4 {
		v4 := &layers.IPv4{Version: 4, TTL: p.TTL, TOS: p.TOS, Id: p.IPID, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP, SrcIP: src, DstIP: dst}
		_ = udp.SetNetworkLayerForChecksum(v4)
		ip = v4
	} else {
		v6 := &layers.IPv6{Version: 6, HopLimit: p.TTL, TrafficClass: p.TOS, FlowLabel: p.Label, NextHeader: layers.IPProtocolUDP, SrcIP: src, DstIP: dst}
		_ = udp.SetNetworkLayerForChecksum(v6)
		ip, header = v6, wire.IPv6Header
	}
	size := p.Size
	if p.Trimmed {
		size = p.Whole
	}
	payload := make([]byte, int(size)-wire.EthernetHeader-header-wire.UDPHeader)
	var head [16]byte
	binary.BigEndian.PutUint32(head[0:], uint32(p.Flow))
	binary.BigEndian.PutUint32(head[4:], p.Seq)
	binary.BigEndian.PutUint64(head[8:], uint64(p.Created/units.Nanosecond))
	copy(payload, head[:])
	eth := &layers.Ethernet{SrcMAC: hardwareAddr(p.Src), DstMAC: hardwareAddr(p.Dst), EthernetType: layers.EthernetType(p.Ether)}
	// The packet was built to be valid, so serialisation cannot fail.
	_ = gopacket.SerializeLayers(e.buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, ip, udp, gopacket.Payload(payload))
	return e.buf.Bytes()[:p.Size]
}

func asIP(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

func hardwareAddr(m wire.MAC) net.HardwareAddr {
	b := make(net.HardwareAddr, 6)
	m.EncodeTo(b)
	return b
}
