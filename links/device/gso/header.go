// Package gso implements segmentation offload as Linux's TUN and TAP devices do it
// with IFF_VNET_HDR: a host's kernel hands over super-packets of up to 64 KB with
// partial checksums, described by a header, and accepts the same. Prepare and NewSplitter
// cut a super-packet into packets that remain pieces of it, RenderPacket makes the wire
// bytes of a packet when they are needed, and a Joiner joins packets bound for a
// host into super-packets.
//
// Split produces the packets that the kernel's software segmentation would send
// (net/ipv4/tcp_offload.c, net/ipv4/udp_offload.c, net/ipv4/af_inet.c), and a Joiner
// produces super-packets that it would cut into the same packets again.
//
// The kernel does not hand over what it is not offered: UDP fragmentation offload
// (UFO), tunnels, packets beyond 64 KB (BIG TCP). Packets with a routing header that
// has segments left are refused. Nothing here makes a system call, reads a clock or
// allocates per packet.
//
// A Joiner's run is written with one writev(2): headers from a scratch buffer, and the
// payload from where it was read. So no payload is copied between two hosts.
package gso

import "encoding/binary"

// Header is struct virtio_net_hdr (include/uapi/linux/virtio_net.h), which
// precedes each packet that is read from or written to the device. Offsets count
// from the first byte after it: of the Ethernet header for a TAP, of the IP header
// for a TUN.
type Header struct {
	Flags   uint8
	GSOType uint8
	// HdrLen is the length of all headers. A reader must not trust it: the kernel
	// sets it to the length of the buffer's linear part.
	HdrLen     uint16
	GSOSize    uint16 // payload bytes of each segment but the last
	CsumStart  uint16 // from where to sum
	CsumOffset uint16 // of the checksum's field, from CsumStart
}

// HeaderLen is the length of a Header in bytes. A device may be told to use a longer
// one (TUNSETVNETHDRSZ), which begins with the same fields.
const HeaderLen = 10

// Flags.
const (
	NeedsCsum = 1 // the checksum's field holds the sum of the pseudo-header only
	DataValid = 2 // the checksum has been verified
)

// Types of segmentation.
const (
	GSONone  = 0
	GSOTCPv4 = 1
	GSOTCPv6 = 4
	GSOUDPL4 = 5    // one datagram per segment; since Linux 6.2
	GSOECN   = 0x80 // added to a TCP type: CWR is set, on the first segment only
)

// DecodeHeader reads the header at the beginning of b, of at least HeaderLen bytes, in
// native byte order, which the device uses unless TUNSETVNETLE or TUNSETVNETBE has
// set another.
func DecodeHeader(b []byte) Header {
	return Header{
		Flags:      b[0],
		GSOType:    b[1],
		HdrLen:     binary.NativeEndian.Uint16(b[2:]),
		GSOSize:    binary.NativeEndian.Uint16(b[4:]),
		CsumStart:  binary.NativeEndian.Uint16(b[6:]),
		CsumOffset: binary.NativeEndian.Uint16(b[8:]),
	}
}

// EncodeTo writes the header to the first HeaderLen bytes of b.
func (h Header) EncodeTo(b []byte) {
	b[0], b[1] = h.Flags, h.GSOType
	binary.NativeEndian.PutUint16(b[2:], h.HdrLen)
	binary.NativeEndian.PutUint16(b[4:], h.GSOSize)
	binary.NativeEndian.PutUint16(b[6:], h.CsumStart)
	binary.NativeEndian.PutUint16(b[8:], h.CsumOffset)
}
