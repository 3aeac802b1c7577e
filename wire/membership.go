package wire

// Membership is what a switch needs to know of a message about multicast groups (RFC 4541).
type Membership uint8

// The kinds of messages.
const (
	NoMembership     Membership = iota // the packet is not about groups
	MembershipReport                   // a host is in groups, or has left one
	MembershipRouter                   // its sender forwards multicast: a query, or PIM's hello
)

// ReadMembership reads the beginning of an IP packet: IGMP versions 1 to 3 (RFC 1112, 2236, 3376), MLD
// versions 1 and 2 (RFC 2710, 3810), and PIM (RFC 7761 §4.9). A query from the unspecified address
// comes from a switch, not from a router (RFC 4541 §2.1.1): it is NoMembership.
func ReadMembership(b []byte) Membership {
	h, ok := ParseIP(b)
	if !ok || h.Fragment || len(b) <= h.Header {
		return NoMembership
	}
	first := b[h.Header]
	switch h.Proto {
	case protoIGMP:
		switch {
		case h.Version != 4:
		case first == 0x11 && [4]byte(b[12:]) != [4]byte{}:
			return MembershipRouter
		case first == 0x12, first == 0x16, first == 0x17, first == 0x22:
			return MembershipReport
		}
	case ProtoICMPv6:
		switch {
		case h.Version != 6:
		case first == 130 && [16]byte(b[8:]) != [16]byte{}:
			return MembershipRouter
		case first == 131, first == 132, first == 143:
			return MembershipReport
		}
	case protoPIM:
		if first == 0x20 { // version 2, hello
			return MembershipRouter
		}
	}
	return NoMembership
}

const (
	protoIGMP = 2
	protoPIM  = 103
)
