package switches

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/router"
)

// PathOf returns the port through which packets such as p, which came in through in, leave
// the switch, or nil if there is none. It sets p.Dest to the destination that p has
// after that port. fixed is false if the choice depends on more than the packet's
// fields, so that each packet may leave through another port. Way changes only p.
func (s *Switch) PathOf(in *port.Port, p *packet.Packet) (out *port.Port, fixed bool) {
	if s.router == nil {
		number := s.routes[p.Dest]
		if s.groups[number].count > 1 && s.chooser.IsStateful() {
			return nil, false
		}
		out, _ = s.pickPort(0, in, number, p)
		return out, true
	}
	n, fate, _ := s.router.findRoute(p)
	if fate != packet.Fine || n == router.Local {
		return nil, true
	}
	if s.groups[s.router.Table.Routes[n].Group].count > 1 && s.chooser.IsStateful() {
		return nil, false
	}
	out, hop := s.nextHop(0, n, p)
	p.Dest = hop.Endpoint
	return out, true
}
