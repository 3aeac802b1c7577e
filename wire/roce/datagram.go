package roce

import (
	"encoding/binary"

	"github.com/weftlab/weft/wire"
)

// findDatagram finds the UDP payload in the IP packet at the beginning of ip. It
// returns where the payload begins, and its length according to the UDP header. ip
// may be shorter than that, if the packet was cut, or longer, if it is padded.
func findDatagram(ip []byte) (at, length int, err error) {
	h, ok := wire.ParseIP(ip)
	at = h.Header + wire.UDPHeader
	switch {
	case !ok || len(ip) < at:
		return 0, 0, ErrShort
	case h.Proto != wire.ProtoUDP || h.DstPort != Port || h.Fragment:
		return 0, 0, ErrNotRoCE
	case h.Version == 4 && h.Header != wire.IPv4Header, h.Version == 6 && h.Header != wire.IPv6Header:
		return 0, 0, ErrNotRoCE
	}
	length = int(binary.BigEndian.Uint16(ip[h.Header+4:])) - wire.UDPHeader
	if length < BTHLen+ICRCLen {
		return 0, 0, ErrLength
	}
	return at, length, nil
}
