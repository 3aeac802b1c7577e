package switches

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// routerTime is how long a port leads to a multicast router after the last query through it: the
// Other Querier Present Interval with its defaults (RFC 3376 §8.5, RFC 3810 §9.5).
const routerTime = 255 * units.Second

// membershipOf says what a flooded packet that came in through in means for multicast groups.
func membershipOf(in *port.Port, p *packet.Packet) wire.Membership {
	if in == nil || p.BadFCS || p.Frame == nil || p.Version == 0 {
		return wire.NoMembership
	}
	return wire.ReadMembership(p.Frame[p.L3:])
}

// sendReport handles a message of a host about multicast groups as a snooping switch does: it goes
// only where a multicast router has been heard (RFC 4541 §2.1.1), as other hosts have no use for it;
// the switch keeps it if there is none. Multicast itself is flooded whether there are reports or not.
// It returns false if p is no such message; then the caller still owns it.
func (s *Switch) sendReport(now units.Time, in *port.Port, p *packet.Packet) bool {
	switch membershipOf(in, p) {
	case wire.MembershipRouter:
		if s.routersUntil == nil {
			s.routersUntil = make([]units.Time, len(s.Ports))
		}
		s.routersUntil[in.Index] = now + routerTime
		return false
	case wire.MembershipReport:
	default:
		return false
	}
	if !s.floodWhere(now, in, p, func(i int) bool { return s.routersUntil != nil && now < s.routersUntil[i] }) {
		s.consumePacket(p)
	}
	return true
}
