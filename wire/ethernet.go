// Package wire reads and rewrites the few header fields of Ethernet, IPv4, IPv6,
// TCP and UDP that a switch needs, in place and without allocation. Rare operations
// (an ARP reply, a capture of a modelled packet) use gopacket instead.
package wire

import "encoding/binary"

// Ethertypes.
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeARP  = 0x0806
	EtherTypeVLAN = 0x8100 // the tag of 802.1Q, and the inner one of QinQ
	EtherTypeIPv6 = 0x86dd
	EtherTypeQinQ = 0x88a8 // the outer tag of 802.1ad
)

// Sizes on an Ethernet link, in bytes.
const (
	EthernetHeader = 14
	// EthernetMin is the shortest frame without its FCS (IEEE 802.3 §4A.4.2: 64
	// bytes with it); shorter frames are padded on the wire.
	EthernetMin = 60
	// EthernetOverhead is the number of bytes that a frame takes on the wire beyond
	// its length: preamble and start delimiter 8, FCS 4, inter-packet gap 12.
	EthernetOverhead = 24
	// VLANTag is the length of an 802.1Q tag.
	VLANTag = 4
)

// MACLen is the length of an Ethernet address in a frame, in bytes.
const MACLen = 6

// MAC is an Ethernet address in the low 48 bits, first octet highest.
type MAC uint64

// ReadMAC reads six octets.
func ReadMAC(b []byte) MAC {
	return MAC(binary.BigEndian.Uint32(b))<<16 | MAC(binary.BigEndian.Uint16(b[4:]))
}

// EncodeTo writes m as six octets.
func (m MAC) EncodeTo(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(m>>16))
	binary.BigEndian.PutUint16(b[4:], uint16(m))
}

// IsMulticast reports whether m addresses a group. Broadcast is one.
func (m MAC) IsMulticast() bool { return m>>40&1 != 0 }

// Reserved reports whether m is one of the group addresses that bridges do not forward, from
// 01:80:c2:00:00:00 to 01:80:c2:00:00:0f, such as those of spanning trees, pauses, LACP and
// LLDP (IEEE 802.1Q-2022 §8.6.3, table 8-1).
func (m MAC) Reserved() bool { return m&^0xf == 0x0180c2000000 }

// Broadcast addresses every station.
const Broadcast MAC = 0xffffffffffff
