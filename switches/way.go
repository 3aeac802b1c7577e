package switches

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/router"
)

// Way gives the port through which packets such as p, which came in by in, leave the
// switch, and gives p the destination that it has behind it; nil if there is none. fixed
// is false where the switch chooses by more than the packet's fields, so that each may
// leave by another. Nothing is changed but p.
func (s *Switch) Way(in *port.Port, p *packet.Packet) (out *port.Port, fixed bool) {
	if s.router == nil {
		number := s.routes[p.Dest]
		if s.groups[number].count > 1 && s.chooser.Stateful() {
			return nil, false
		}
		out, _ = s.pick(0, in, number, p)
		return out, true
	}
	n, fate, _ := s.router.find(p)
	if fate != packet.Fine || n == router.Local {
		return nil, true
	}
	if s.groups[s.router.Table.Routes[n].Group].count > 1 && s.chooser.Stateful() {
		return nil, false
	}
	out, hop := s.next(0, n, p)
	p.Dest = hop.Endpoint
	return out, true
}
