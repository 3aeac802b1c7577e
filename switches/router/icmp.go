package router

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Problem is the reason why a router does not forward a packet.
type Problem uint8

// The problems that routers report to senders.
const (
	TimeExceeded    Problem = iota // its TTL or hop limit is used up
	NetUnreachable                 // there is no route
	HostUnreachable                // no host on the last link has the address
	PortUnreachable                // it is to the router, which has no such UDP port
	TooBig                         // it is longer than the next link's MTU and must not be cut
)

// messages has type and code of each problem, in ICMP (RFC 792, RFC 1191) and in
// ICMPv6 (RFC 4443).
var messages = [...]struct{ v4, v6 [2]byte }{
	TimeExceeded:    {[2]byte{11, 0}, [2]byte{3, 0}},
	NetUnreachable:  {[2]byte{3, 0}, [2]byte{1, 0}},
	HostUnreachable: {[2]byte{3, 1}, [2]byte{1, 3}},
	PortUnreachable: {[2]byte{3, 3}, [2]byte{1, 4}},
	TooBig:          {[2]byte{3, 4}, [2]byte{2, 0}},
}

const (
	icmpHeader = 8
	// maxProblem4 is the longest ICMP error (RFC 1812 §4.3.2.3), in bytes.
	maxProblem4 = 576
	// maxProblem6 is the longest ICMPv6 error, the minimum MTU of IPv6 (RFC 4443
	// §2.4 c).
	maxProblem6 = 1280
	// ownTTL is the TTL of packets that a router generates.
	ownTTL = 64
	// internetControl is the precedence of ICMP errors (RFC 1812 §4.3.2.5).
	internetControl = 0xc0

	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

// AppendProblem appends to b the IP packet that reports a problem to the sender of
// ip. from is the router's address, of the same version as ip; mtu is that of the
// next link if the problem is TooBig; id goes into the IPv4 header. ip may be
// longer than the packet.
//
// It returns nil for packets about which no message may be sent (RFC 1812 §4.3.2.7,
// RFC 4443 §2.4 e): ICMP errors and what may be one, fragments other than the
// first, packets to or from anything except a single host, and packets other than
// IP.
func AppendProblem(b, ip []byte, what Problem, from netip.Addr, mtu units.Bytes, id uint16) []byte {
	ip, h, ok := trimPadding(ip)
	if !ok || h.Fragment || isError(ip, h) {
		return nil
	}
	src, dst, _ := addressesOf(ip)
	if !oneHost(src) || !oneHost(dst) || from.Is4() != src.Is4() {
		return nil
	}
	header, maxLength, kind, proto, tos := wire.IPv4Header, maxProblem4, messages[what].v4, uint8(wire.ProtoICMP), h.TOS&0x1c|internetControl
	if h.Version == 6 {
		header, maxLength, kind, proto, tos = wire.IPv6Header, maxProblem6, messages[what].v6, wire.ProtoICMPv6, 0
	}
	quote := ip[:min(len(ip), maxLength-header-icmpHeader)]
	b, at := appendIP(b, from, src, proto, tos, icmpHeader+len(quote), id)
	b = append(b, kind[0], kind[1], 0, 0, 0, 0, 0, 0)
	if what == TooBig {
		if h.Version == 4 { // RFC 1191 §4
			binary.BigEndian.PutUint16(b[len(b)-2:], uint16(min(mtu, 1<<16-1)))
		} else {
			binary.BigEndian.PutUint32(b[len(b)-4:], uint32(mtu))
		}
	}
	b = append(b, quote...)
	sumICMP(b[at:], header)
	return b
}

// AppendEchoReply appends to b the answer to ip, an echo request to an address of
// the router. It returns nil if ip is not an echo request, or a fragment of one. A
// request with a wrong checksum gets an answer with a wrong checksum.
func AppendEchoReply(b, ip []byte, id uint16) []byte {
	ip, h, ok := trimPadding(ip)
	if !ok || h.Fragment || h.Version == 4 && moreFragments(ip) {
		return nil
	}
	src, dst, _ := addressesOf(ip)
	message := ip[h.Header:]
	var from, to uint8
	switch {
	case len(message) < icmpHeader || !oneHost(src):
		return nil
	case h.Version == 4 && h.Proto == wire.ProtoICMP && message[0] == echoRequest4 && message[1] == 0:
		from, to = echoRequest4, echoReply4
	case h.Version == 6 && h.Proto == wire.ProtoICMPv6 && message[0] == echoRequest6 && message[1] == 0 && !hasFragment(ip, h):
		from, to = echoRequest6, echoReply6
	default:
		return nil
	}
	b, _ = appendIP(b, dst, src, h.Proto, h.TOS, len(message), id)
	start := len(b)
	b = append(b, message...)
	b[start] = to
	wire.UpdateChecksum(b[start+2:], uint16(from)<<8, uint16(to)<<8)
	return b
}

// appendIP appends an IP header for n following bytes and returns where it begins.
func appendIP(b []byte, src, dst netip.Addr, proto, tos uint8, n int, id uint16) (_ []byte, at int) {
	at = len(b)
	if src.Is4() {
		s, d := src.As4(), dst.As4()
		b = append(b, 4<<4|wire.IPv4Header/4, tos)
		b = binary.BigEndian.AppendUint16(b, uint16(wire.IPv4Header+n))
		b = binary.BigEndian.AppendUint16(b, id)
		b = append(b, 0, 0, ownTTL, proto, 0, 0)
		b = append(append(b, s[:]...), d[:]...)
		binary.BigEndian.PutUint16(b[at+10:], wire.IPv4Checksum(b[at:]))
		return b, at
	}
	s, d := src.As16(), dst.As16()
	b = append(b, 6<<4|tos>>4, tos<<4, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(b, proto, ownTTL)
	return append(append(b, s[:]...), d[:]...), at
}

// sumICMP fills in the checksum, so far 0, of the ICMP message after the header of
// an IP packet.
func sumICMP(ip []byte, header int) {
	var pseudo uint32
	if ip[0]>>4 == 6 { // RFC 8200 §8.1
		pseudo = uint32(^wire.Checksum(ip[8:40], uint32(wire.ProtoICMPv6)+uint32(len(ip)-header)))
	}
	binary.BigEndian.PutUint16(ip[header+2:], wire.Checksum(ip[header:], pseudo))
}

// isError reports whether ip is an ICMP message that is, or may be, an error.
func isError(ip []byte, h wire.IP) bool {
	if h.Proto != wire.ProtoICMP && h.Proto != wire.ProtoICMPv6 {
		return false
	}
	if len(ip) <= h.Header {
		return true // the type is missing
	}
	kind := ip[h.Header]
	if h.Proto == wire.ProtoICMPv6 {
		const redirect = 137
		return kind < 128 || kind == redirect
	}
	switch kind { // RFC 1122 §3.2.2
	case 3, 4, 5, 11, 12:
		return true
	}
	return false
}

// oneHost reports whether an address belongs to a single host.
func oneHost(a netip.Addr) bool {
	if a.Is4() {
		first := a.As4()[0]
		return first != 0 && first != 127 && first < 224
	}
	return !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback()
}

func moreFragments(ip []byte) bool { return binary.BigEndian.Uint16(ip[6:])&0x2000 != 0 }

// hasFragment reports whether an IPv6 packet has a fragment header, which is the
// last header that wire.ParseIP reads.
func hasFragment(ip []byte, h wire.IP) bool {
	const fragment = 44
	next, at := ip[6], wire.IPv6Header
	for at < h.Header && next != fragment {
		next, at = ip[at], at+8+int(ip[at+1])*8
	}
	return at < h.Header
}
