package telemetry

import (
	"encoding/binary"
	"slices"

	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// InsertStack puts a stack into a frame that holds a complete RoCEv2 packet without one. The IP
// header begins at l3. Insert returns the frame, which may have moved. The invariant CRC
// does not change.
func InsertStack(frame []byte, l3 int, s *Stack) []byte {
	n := int(s.Len())
	at := l3 + headerOf(frame[l3:]) + wire.UDPHeader
	frame = slices.Insert(frame, at, make([]byte, n)...)
	s.EncodeTo(frame[at:])
	resizeHeaders(frame, l3, n, Port)
	return frame
}

// RemoveStack takes the stack out of a frame with an IP packet to Port, in place, and reads it
// into s. The rest is the RoCEv2 packet that the invariant CRC covers. If the stack is
// invalid, RemoveStack returns an error and the unchanged frame.
func RemoveStack(frame []byte, l3 int, s *Stack) ([]byte, error) {
	at := l3 + headerOf(frame[l3:]) + wire.UDPHeader
	n, err := s.Parse(frame[min(at, len(frame)):])
	if err != nil {
		return frame, err
	}
	frame = slices.Delete(frame, at, at+n)
	resizeHeaders(frame, l3, -n, roce.Port)
	return frame, nil
}

// headerOf returns the length of an IP header without options or extensions.
func headerOf(ip []byte) int {
	if ip[0]>>4 == 6 {
		return wire.IPv6Header
	}
	return wire.IPv4Header
}

// resizeHeaders adds n to the lengths in the IP and UDP headers, and sets the UDP destination
// port.
func resizeHeaders(frame []byte, l3, n int, port uint16) {
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
