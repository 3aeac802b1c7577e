package wire

import "encoding/binary"

// IP protocol numbers.
const (
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
)

// ECN codepoints, the two low bits of the IPv4 ToS octet and of the IPv6
// traffic class (RFC 3168 §5).
const (
	NotECT = 0
	ECT1   = 1
	ECT0   = 2
	CE     = 3
)

// Lengths of IP headers without options and extensions, in bytes.
const (
	IPv4Header = 20
	IPv6Header = 40
	UDPHeader  = 8
)

// IP holds the fields of an IP header that forwarding needs.
type IP struct {
	Version  uint8 // 4 or 6
	TOS      uint8 // ToS octet, or traffic class
	TTL      uint8 // or hop limit
	Proto    uint8 // of the payload, after IPv6 extension headers up to a fragment header
	ID       uint16
	Fragment bool // not the first fragment: no port numbers follow
	Header   int  // length including options and extension headers
	SrcPort  uint16
	DstPort  uint16
}

// MaxFlowLabel is the largest flow label, of 20 bits.
const MaxFlowLabel = 1<<20 - 1

// FlowLabel reads the flow label of an IPv6 header (RFC 6437); 0 means none.
func FlowLabel(b []byte) uint32 { return binary.BigEndian.Uint32(b) & MaxFlowLabel }

// ParseIP reads the header at the beginning of b and the port numbers after it. It
// returns false if b does not hold a complete IP header. b may be longer than the
// packet.
func ParseIP(b []byte) (h IP, ok bool) {
	if len(b) < IPv4Header {
		return h, false
	}
	switch b[0] >> 4 {
	case 4:
		n := int(b[0]&15) * 4
		if n < IPv4Header || len(b) < n {
			return h, false
		}
		frag := binary.BigEndian.Uint16(b[6:])
		h = IP{Version: 4, TOS: b[1], ID: binary.BigEndian.Uint16(b[4:]), TTL: b[8], Proto: b[9], Fragment: frag&0x1fff != 0, Header: n}
		// The ports of a fragmented packet are in its first fragment only; hashing
		// on them would send the other fragments on another path.
		h.readPorts(b[n:], frag&0x3fff != 0)
		return h, true
	case 6:
		if len(b) < IPv6Header {
			return h, false
		}
		h = IP{Version: 6, TOS: b[0]<<4 | b[1]>>4, TTL: b[7], Proto: b[6], Header: IPv6Header}
		fragmented := h.skipExtensions(b)
		h.readPorts(b[h.Header:], fragmented)
		return h, true
	}
	return h, false
}

func (h *IP) readPorts(b []byte, fragmented bool) {
	if !fragmented && (h.Proto == ProtoTCP || h.Proto == ProtoUDP) && len(b) >= 4 {
		h.SrcPort = binary.BigEndian.Uint16(b)
		h.DstPort = binary.BigEndian.Uint16(b[2:])
	}
}

// skipExtensions walks the IPv6 extension headers (RFC 8200 §4) that may precede a
// transport header and reports whether the packet is a fragment. It stops at a
// header that is incomplete in b, and after a fragment header: what follows is a
// part of the payload, different in each fragment.
func (h *IP) skipExtensions(b []byte) (fragmented bool) {
	for len(b) >= h.Header+8 {
		x := b[h.Header:]
		switch h.Proto {
		case 0, 43, 60: // hop-by-hop, routing, destination options
			n := 8 + int(x[1])*8
			if len(x) < n {
				return false
			}
			h.Proto = x[0]
			h.Header += n
		case 44: // fragment
			h.Fragment = binary.BigEndian.Uint16(x[2:])&0xfff8 != 0
			h.Proto = x[0]
			h.Header += 8
			return true
		default:
			return false
		}
	}
	return false
}

// SetTOS rewrites the ToS octet or traffic class of the IP header at the
// beginning of b and, for IPv4, its checksum (RFC 1624 equation 3).
func SetTOS(b []byte, tos uint8) {
	if b[0]>>4 == 6 {
		b[0] = b[0]&0xf0 | tos>>4
		b[1] = b[1]&0x0f | tos<<4
		return
	}
	setWord(b, 0, binary.BigEndian.Uint16(b)&0xff00|uint16(tos))
}

// SetIPv4Length writes the total length into an IPv4 header and updates its
// checksum.
func SetIPv4Length(b []byte, n uint16) { setWord(b, 2, n) }

// setWord writes a 16-bit word of an IPv4 header and updates the checksum.
func setWord(b []byte, at int, word uint16) {
	old := binary.BigEndian.Uint16(b[at:])
	binary.BigEndian.PutUint16(b[at:], word)
	UpdateChecksum(b[10:], old, word)
}

// DecrementTTL decrements the TTL or hop limit, which is not 0, of the IP header at
// the beginning of b and, for IPv4, updates the checksum. A checksum that was wrong
// stays wrong.
func DecrementTTL(b []byte) {
	if b[0]>>4 == 6 {
		b[7]--
		return
	}
	setWord(b, 8, binary.BigEndian.Uint16(b[8:])-1<<8)
}

// UpdateChecksum updates the Internet checksum at the beginning of b for a 16-bit
// word that has changed (RFC 1624 equation 3).
func UpdateChecksum(b []byte, from, to uint16) {
	sum := uint32(^binary.BigEndian.Uint16(b)) + uint32(^from) + uint32(to)
	// Two folds are enough for a sum of three 16-bit words.
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(b, ^uint16(sum))
}

// IPv4Checksum returns the checksum of a complete IPv4 header (RFC 791). It is 0
// for a correct header.
func IPv4Checksum(header []byte) uint16 { return Checksum(header, 0) }

// Checksum returns the Internet checksum (RFC 1071) of b, starting from the partial
// sum sum.
func Checksum(b []byte, sum uint32) uint16 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
