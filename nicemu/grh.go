package nicemu

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// putIP writes the IP header of a packet in its place in a GRH: an IPv6 header takes all of it, an
// IPv4 header the last 20 bytes.
func putIP(h *[transport.GRHLen]byte, p *packet.Packet, from, to netip.Addr) {
	if from.Is4() {
		b := h[wire.IPv6Header-wire.IPv4Header:]
		b[0], b[1] = 0x45, p.TOS
		binary.BigEndian.PutUint16(b[2:], uint16(p.Layer3()))
		binary.BigEndian.PutUint16(b[4:], p.IPID)
		binary.BigEndian.PutUint16(b[6:], 0x4000) // don't fragment
		b[8], b[9] = p.TTL, p.Proto
		*(*[4]byte)(b[12:]), *(*[4]byte)(b[16:]) = from.As4(), to.As4()
		binary.BigEndian.PutUint16(b[10:], wire.IPv4Checksum(b))
		return
	}
	binary.BigEndian.PutUint32(h[:], 6<<28|uint32(p.TOS)<<20|p.Label)
	binary.BigEndian.PutUint16(h[4:], uint16(p.Layer3()-wire.IPv6Header))
	h[6], h[7] = p.Proto, p.TTL
	*(*[16]byte)(h[8:]), *(*[16]byte)(h[24:]) = from.As16(), to.As16()
}
