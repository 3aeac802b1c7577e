package telemetry

import (
	"encoding/binary"
	"slices"

	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/protocols/wire"
)

// Insert puts a stack into a frame with a whole RoCEv2 packet without one, whose IP
// header begins at l3, and gives the frame, which may have been moved. The invariant CRC
// stays what it was.
func Insert(frame []byte, l3 int, s *Stack) []byte {
	n := int(s.Len())
	at := l3 + headerOf(frame[l3:]) + wire.UDPHeader
	frame = slices.Insert(frame, at, make([]byte, n)...)
	s.Put(frame[at:])
	resize(frame, l3, n, Port)
	return frame
}

// Remove takes the stack out of a frame with an IP packet to Port and reads it into s,
// in place; what is left is the RoCEv2 packet that the invariant CRC is of. The error says
// what is wrong with the stack; then the frame is as it was.
func Remove(frame []byte, l3 int, s *Stack) ([]byte, error) {
	at := l3 + headerOf(frame[l3:]) + wire.UDPHeader
	n, err := s.Parse(frame[min(at, len(frame)):])
	if err != nil {
		return frame, err
	}
	frame = slices.Delete(frame, at, at+n)
	resize(frame, l3, -n, roce.Port)
	return frame, nil
}

// headerOf is the length of an IP header without options or extensions.
func headerOf(ip []byte) int {
	if ip[0]>>4 == 6 {
		return wire.IPv6Header
	}
	return wire.IPv4Header
}

// resize makes the headers of IP and UDP say that the packet is n bytes longer, and the
// UDP port another.
func resize(frame []byte, l3, n int, port uint16) {
	ip := frame[l3:]
	udp := ip[headerOf(ip):]
	add := func(b []byte) { binary.BigEndian.PutUint16(b, uint16(int(binary.BigEndian.Uint16(b))+n)) }
	if ip[0]>>4 == 6 {
		add(ip[4:])
	} else {
		wire.SetIPv4Length(ip, uint16(int(binary.BigEndian.Uint16(ip[2:]))+n))
	}
	binary.BigEndian.PutUint16(udp[2:], port)
	add(udp[4:])
}
