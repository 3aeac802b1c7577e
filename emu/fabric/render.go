package fabric

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// renderer makes the wire bytes of packets of real programs and of NICs, and of packets
// with a Message.
type renderer struct {
	flows *encoder // for modelled flows in tunnels
	whole []byte   // a trimmed packet before it was trimmed
	inner []byte   // the packet in a tunnel
}

// render returns the wire bytes of a packet that HasBytes, from the destination
// MAC, without FCS. A Frame with nothing left to do is returned as it is.
// Anything else is made in buf, which needs a capacity of p.Size or is replaced
// by a larger one.
func (r *renderer) render(p *packet.Packet, buf []byte) []byte {
	var whole func([]byte, *packet.Packet) []byte
	switch p.Kind {
	case packet.NIC:
		whole = appendRoCE
	case packet.Protocol:
		whole = r.appendMessage
	default:
		return gso.RenderPacket(p, buf)
	}
	if !p.Trimmed {
		return whole(buf[:0], p)
	}
	r.whole = whole(r.whole[:0], p)
	buf = append(buf[:0], r.whole[:p.Size]...)
	if p.Whole == p.Size {
		// The switch has adjusted only the length in the IP header.
		if ip := buf[p.L3:]; p.Version == 6 {
			binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-wire.IPv6Header))
		} else {
			wire.SetIPv4Length(ip, uint16(len(ip)))
		}
	}
	return buf
}

// appendRoCE appends the frame of a NIC's packet, before any of it was cut off:
// IP without options, not to be fragmented; UDP with the checksum 0, which
// Linux's rdma_rxe also uses in IPv6 (RFC 6935 allows it for tunnels); and the
// invariant CRC. A payload that is not modelled is zeros. In a packet that has
// been sent back the CRC is 0.
func appendRoCE(b []byte, p *packet.Packet) []byte {
	start, n := len(b), wire.UDPHeader+p.RoCE.Len()
	b, udp := appendHeaders(b, p, p.RoCE.From, p.RoCE.To, n)
	frame := b[start:]
	ip := frame[wire.EthernetHeader:]
	putUDP(udp, p, n)
	p.RoCE.Put(udp[wire.UDPHeader:])
	if t := p.Telemetry(); t != nil {
		binary.BigEndian.PutUint16(udp[2:], roce.Port)
		_ = roce.PutICRC(ip)
		return append(b[:start], telemetry.InsertStack(frame, wire.EthernetHeader, t)...)
	}
	_ = roce.PutICRC(ip) // it fails for a packet that has been sent back: its ports are exchanged
	return b
}

// appendHeaders appends a frame with the Ethernet header, the header of the packet's
// IP version, if it has one, and n bytes behind them, which it also returns.
func appendHeaders(b []byte, p *packet.Packet, from, to netip.Addr, n int) (grown, behind []byte) {
	header := 0
	switch p.Version {
	case 4:
		header = wire.IPv4Header
	case 6:
		header = wire.IPv6Header
	}
	start, size := len(b), wire.EthernetHeader+header+n
	b = slices.Grow(b, size)[:start+size]
	frame := b[start:]
	p.Dst.EncodeTo(frame)
	p.Src.EncodeTo(frame[wire.MACLen:])
	binary.BigEndian.PutUint16(frame[2*wire.MACLen:], p.Ether)
	ip := frame[wire.EthernetHeader:]
	switch p.Version {
	case 4:
		putIPv4(ip, p, from, to, n)
	case 6:
		putIPv6(ip, p, from, to, n)
	}
	return b, ip[header:]
}

// putUDP writes a UDP header without a checksum. n is the length of the header and the
// payload.
func putUDP(udp []byte, p *packet.Packet, n int) {
	binary.BigEndian.PutUint16(udp, p.SrcPort)
	binary.BigEndian.PutUint16(udp[2:], p.DstPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(n))
	udp[6], udp[7] = 0, 0
}

// putIPv4 writes the IPv4 header of a packet with n bytes behind it and the protocol of
// the packet.
func putIPv4(ip []byte, p *packet.Packet, from, to netip.Addr, n int) {
	const dontFragment = 0x4000
	ip[0], ip[1] = 4<<4|wire.IPv4Header/4, p.TOS
	binary.BigEndian.PutUint16(ip[2:], uint16(wire.IPv4Header+n))
	binary.BigEndian.PutUint16(ip[4:], p.IPID)
	binary.BigEndian.PutUint16(ip[6:], dontFragment)
	ip[8], ip[9], ip[10], ip[11] = p.TTL, p.Proto, 0, 0
	src, dst := from.As4(), to.As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	binary.BigEndian.PutUint16(ip[10:], wire.IPv4Checksum(ip[:wire.IPv4Header]))
}

// putIPv6 is putIPv4 for IPv6.
func putIPv6(ip []byte, p *packet.Packet, from, to netip.Addr, n int) {
	binary.BigEndian.PutUint32(ip, 6<<28|uint32(p.TOS)<<20|p.Label&wire.MaxFlowLabel)
	binary.BigEndian.PutUint16(ip[4:], uint16(n))
	ip[6], ip[7] = p.Proto, p.TTL
	src, dst := from.As16(), to.As16()
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])
}
