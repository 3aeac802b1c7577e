package eqdsnic

import "github.com/weftlab/weft/wire"

// Outer packets copy the ECN codepoint of the packet they carry (RFC 6040 §4.1, normal mode), so
// that switches mark packets of tunnels as they would mark the inner packet.

// combineECN returns the codepoint of a packet that leaves a tunnel (RFC 6040 §4.2, Figure 4). drop
// means that the packet is dropped: the network reports congestion, and the packet's transport
// could not be told otherwise.
func combineECN(inner, outer uint8) (ecn uint8, drop bool) {
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
