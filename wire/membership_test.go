package wire

import (
	"fmt"
	"testing"
)

// ipv4Message returns an IPv4 packet with a router alert option (RFC 2113), as IGMP has it.
func ipv4Message(proto byte, src byte, message ...byte) []byte {
	b := []byte{0x46, 0xc0, 0, 32, 0, 0, 0x40, 0, 1, proto, 0, 0, src, 0, 0, src, 224, 0, 0, 22, 0x94, 4, 0, 0}
	return append(b, message...)
}

// ipv6Message returns an IPv6 packet with a router alert in a hop-by-hop header (RFC 2711), as MLD
// has it.
func ipv6Message(proto byte, src byte, message ...byte) []byte {
	b := make([]byte, 40, 60)
	b[0], b[5], b[6], b[7], b[8], b[23], b[24], b[39] = 0x60, byte(8+len(message)), 0, 1, src, src, 0xff, 0x16
	b = append(b, proto, 0, 5, 2, 0, 0, 1, 0)
	return append(b, message...)
}

// TestReadMembership_EachMessage: each message of IGMP, MLD and PIM, and others.
func TestReadMembership_EachMessage(t *testing.T) {
	for i, c := range []struct {
		b    []byte
		want Membership
	}{
		{ipv4Message(2, 10, 0x11, 100), MembershipRouter},
		{ipv4Message(2, 0, 0x11, 100), NoMembership}, // of a switch
		{ipv4Message(2, 10, 0x12), MembershipReport},
		{ipv4Message(2, 10, 0x16), MembershipReport},
		{ipv4Message(2, 10, 0x17), MembershipReport},
		{ipv4Message(2, 10, 0x22), MembershipReport},
		{ipv4Message(2, 10, 0x13), NoMembership}, // DVMRP
		{ipv4Message(2, 10), NoMembership},
		{ipv4Message(103, 10, 0x20), MembershipRouter},
		{ipv4Message(103, 10, 0x23), NoMembership}, // join
		{ipv4Message(17, 10, 0x22), NoMembership},
		{ipv4Message(58, 10, 143), NoMembership},
		{ipv6Message(58, 0xfe, 130), MembershipRouter},
		{ipv6Message(58, 0, 130), NoMembership},
		{ipv6Message(58, 0xfe, 131), MembershipReport},
		{ipv6Message(58, 0xfe, 132), MembershipReport},
		{ipv6Message(58, 0xfe, 143), MembershipReport},
		{ipv6Message(58, 0, 143), MembershipReport}, // before it has an address
		{ipv6Message(58, 0xfe, 135), NoMembership},  // neighbour solicitation
		{ipv6Message(58, 0xfe), NoMembership},
		{ipv6Message(103, 0xfe, 0x20), MembershipRouter},
		{ipv6Message(2, 0xfe, 0x22), NoMembership},
		{nil, NoMembership},
	} {
		if got := ReadMembership(c.b); got != c.want {
			t.Errorf("%d, %x: %d, want %d", i, c.b, got, c.want)
		}
	}
	later := ipv4Message(2, 10, 0x22)
	later[7] = 1 // an offset: what follows is not the message
	if got := ReadMembership(later); got != NoMembership {
		t.Errorf("a later fragment: %d", got)
	}
	whole := ipv6Message(58, 0xfe, 143, 0, 0, 0)
	for n := range whole {
		t.Run(fmt.Sprint(n), func(*testing.T) { ReadMembership(whole[:n]) })
	}
}
