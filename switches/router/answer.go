package router

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/wire"
)

// AppendAnswer appends to b the frame with which the router answers a request for
// the Ethernet address of one of its IP addresses: ARP (RFC 826) and neighbour
// solicitation (RFC 4861 §7.2.4). It returns nil if frame is no such request. l3 is
// where the packet begins in frame, mac the address of the port that it came in
// through.
func (t *Table) AppendAnswer(b, frame []byte, l3 int, ether uint16, mac wire.MAC) []byte {
	switch ether {
	case wire.EtherTypeARP:
		return t.answerARP(b, frame, frame[l3:], mac)
	case wire.EtherTypeIPv6:
		return t.answerNeighbour(b, frame, frame[l3:], mac)
	}
	return nil
}

// Lengths of an ARP request for Ethernet and IPv4, and of a neighbour solicitation
// without options.
const (
	arpLength          = 28
	solicitationLength = 24
)

func (t *Table) answerARP(b, frame, arp []byte, mac wire.MAC) []byte {
	// Ethernet, IPv4, their lengths, request.
	if len(arp) < arpLength || string(arp[:8]) != "\x00\x01\x08\x00\x06\x04\x00\x01" {
		return nil
	}
	if !t.OwnsAddress(netip.AddrFrom4([4]byte(arp[24:28]))) {
		return nil
	}
	b = appendEthernet(b, wire.ReadMAC(frame[wire.MACLen:]), mac, wire.EtherTypeARP)
	b = append(b, arp[:7]...)
	b = append(b, 2) // reply
	b = appendMAC(b, mac)
	b = append(b, arp[24:28]...)
	return append(b, arp[8:18]...) // sender of the request
}

func (t *Table) answerNeighbour(b, frame, ip []byte, mac wire.MAC) []byte {
	const (
		solicitation, advertisement = 135, 136
		targetLinkLayer             = 2
		// A router, in response to a request, overriding the cache.
		router, solicited, override = 0x80, 0x40, 0x20
	)
	ip, h, ok := trimPadding(ip)
	if !ok || h.Version != 6 || h.Proto != wire.ProtoICMPv6 || h.Fragment || h.TTL != 255 {
		return nil
	}
	ask := ip[h.Header:]
	if len(ask) < solicitationLength || ask[0] != solicitation || ask[1] != 0 {
		return nil
	}
	target := netip.AddrFrom16([16]byte(ask[8:24]))
	if !t.OwnsAddress(target) {
		return nil
	}
	src, _, _ := addressesOf(ip)
	to, flags := wire.ReadMAC(frame[wire.MACLen:]), uint8(router|solicited|override)
	if src.IsUnspecified() { // from a node without an address yet: to all nodes
		src, to, flags = netip.IPv6LinkLocalAllNodes(), 0x333300000001, router|override
	}
	b = appendEthernet(b, to, mac, wire.EtherTypeIPv6)
	b, at := appendIP(b, target, src, wire.ProtoICMPv6, 0, solicitationLength+2+wire.MACLen, 0)
	b[at+7] = 255
	b = append(b, advertisement, 0, 0, 0, flags, 0, 0, 0)
	b = append(b, ask[8:24]...)
	b = append(b, targetLinkLayer, 1)
	b = appendMAC(b, mac)
	sumICMP(b[at:], wire.IPv6Header)
	return b
}

func appendEthernet(b []byte, dst, src wire.MAC, ether uint16) []byte {
	b = appendMAC(appendMAC(b, dst), src)
	return binary.BigEndian.AppendUint16(b, ether)
}

func appendMAC(b []byte, m wire.MAC) []byte {
	return append(b, byte(m>>40), byte(m>>32), byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
}
