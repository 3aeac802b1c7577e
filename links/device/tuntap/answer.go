package tuntap

import (
	"net"
	"net/netip"
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// replyTo returns the reply to p if p asks for the MAC of one of the host's
// addresses, else nil.
func (t *TUN) replyTo(p *packet.Packet) []byte {
	switch {
	case p.Ether == wire.EtherTypeARP:
		return t.answerARP(p.Frame)
	case p.Version == 6 && p.Proto == wire.ProtoICMPv6:
		return t.answerNeighbour(p.Frame)
	}
	return nil
}

func (t *TUN) ownsAddress(ip netip.Addr) bool { return slices.Contains(t.addresses, ip) }

func (t *TUN) hardwareAddr() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	t.mac.EncodeTo(mac)
	return mac
}

func (t *TUN) answerARP(frame []byte) []byte {
	pkt := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	eth, _ := pkt.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	arp, _ := pkt.Layer(layers.LayerTypeARP).(*layers.ARP)
	if eth == nil || arp == nil || arp.Operation != layers.ARPRequest || arp.Protocol != layers.EthernetTypeIPv4 {
		return nil
	}
	target, ok := netip.AddrFromSlice(arp.DstProtAddress)
	if !ok || !t.ownsAddress(target) {
		return nil
	}
	mac := t.hardwareAddr()
	return serializeLayers(
		&layers.Ethernet{SrcMAC: mac, DstMAC: eth.SrcMAC, EthernetType: layers.EthernetTypeARP},
		&layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4,
			Operation: layers.ARPReply, SourceHwAddress: mac, SourceProtAddress: arp.DstProtAddress,
			DstHwAddress: arp.SourceHwAddress, DstProtAddress: arp.SourceProtAddress,
		})
}

func (t *TUN) answerNeighbour(frame []byte) []byte {
	pkt := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	eth, _ := pkt.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	ip, _ := pkt.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
	ask, _ := pkt.Layer(layers.LayerTypeICMPv6NeighborSolicitation).(*layers.ICMPv6NeighborSolicitation)
	if eth == nil || ip == nil || ask == nil || ip.HopLimit != 255 {
		return nil
	}
	target, ok := netip.AddrFromSlice(ask.TargetAddress)
	if !ok || !t.ownsAddress(target) {
		return nil
	}
	// Solicited and Override (RFC 4861 §4.4); sent to all nodes if the requester has
	// no address yet.
	dst, dstMAC, flags := ip.SrcIP, eth.SrcMAC, uint8(0x60)
	if ip.SrcIP.IsUnspecified() {
		dst, dstMAC, flags = net.IPv6linklocalallnodes, net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, 0x20
	}
	mac := t.hardwareAddr()
	out := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: 255, SrcIP: ask.TargetAddress, DstIP: dst}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborAdvertisement, 0)}
	if icmp.SetNetworkLayerForChecksum(out) != nil {
		return nil
	}
	return serializeLayers(
		&layers.Ethernet{SrcMAC: mac, DstMAC: dstMAC, EthernetType: layers.EthernetTypeIPv6},
		out, icmp,
		&layers.ICMPv6NeighborAdvertisement{
			Flags: flags, TargetAddress: ask.TargetAddress,
			Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: mac}},
		})
}

func serializeLayers(l ...gopacket.SerializableLayer) []byte {
	buf := gopacket.NewSerializeBuffer()
	if gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, l...) != nil {
		return nil
	}
	return buf.Bytes()
}
