package eqds

import "github.com/weftlab/weft/protocols/wire"

// Outer packets take over the ECN codepoint of what they carry (RFC 6040 §4.1, normal mode), so
// that switches mark packets of tunnels as they would mark what is inside.

// combine is the codepoint of a packet that comes out of a tunnel's packet (RFC 6040 §4.2,
// Figure 4). drop means that it ends there: the network says that it is congested, and the packet
// is of a transport that could not be told otherwise.
func combine(inner, outer uint8) (ecn uint8, drop bool) {
	const ect1 = 1
	switch {
	case inner == wire.NotECT:
		return inner, outer == wire.CE
	case outer == wire.CE:
		return wire.CE, false
	case inner != wire.CE && outer == ect1:
		return ect1, false
	}
	return inner, false
}
