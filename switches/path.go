package switches

import (
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/forward"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/router"
)

// MaxStaticHops is the number of times that static routes may forward a packet.
// Computed tables bring it closer with every hop, but static routes may form a
// loop, and a switch has no TTL to end it.
const MaxStaticHops = 64

// group is a part of Switch.hopPorts.
type group struct {
	first, count uint32
	static       bool
}

// SetForwarding sets how the switch chooses among several paths. It is called
// before SetTable; without it, or with nil, the switch uses ECMP. random is the source of random
// choices.
func (s *Switch) SetForwarding(c forward.Settings, random *rand.Rand) {
	s.chooser = forward.New(c, s.seed, random)
}

// SetTable sets the forwarding table. The ports of the switch must exist.
func (s *Switch) SetTable(t Table) {
	s.table, s.routes, s.hopPorts = t, t.Route, nil
	s.groups = make([]group, len(t.Groups))
	for i, g := range t.Groups {
		s.groups[i] = group{uint32(len(s.hopPorts)), uint32(len(g)), t.IsStatic(uint16(i))}
		for _, p := range g {
			s.hopPorts = append(s.hopPorts, s.Ports[p])
		}
	}
	s.chooser.SetGroups(len(t.Groups))
	s.setOnTree()
}

// IsStatic reports whether group g belongs to a static route.
func (t *Table) IsStatic(g uint16) bool { return int(g) < len(t.Static) && t.Static[g] }

// GroupWeights returns the ports of group g without duplicates, and how often each
// occurs.
func (t *Table) GroupWeights(g uint16) (ports []uint16, weights []int) {
	for _, p := range t.Groups[g] {
		i := slices.Index(ports, p)
		if i < 0 {
			i = len(ports)
			ports, weights = append(ports, p), append(weights, 0)
		}
		weights[i]++
	}
	return ports, weights
}

// choosePort returns the port for p towards an endpoint, or nil if there is none except the one
// that p came in through.
func (s *Switch) choosePort(now units.Time, in *port.Port, p *packet.Packet, to packet.Endpoint) *port.Port {
	number := s.routes[to]
	g := &s.groups[number]
	if g.static {
		if p.StaticHops == MaxStaticHops {
			return nil
		}
		p.StaticHops++
	}
	out, _ := s.pickPort(now, in, number, p)
	return out
}

// chooseTrain is choose for a train; nil also if its packets may leave through different ports.
func (s *Switch) chooseTrain(now units.Time, in *port.Port, p *packet.Packet, to packet.Endpoint) *port.Port {
	number := s.routes[to]
	g := &s.groups[number]
	if g.static || g.count != 1 && s.chooser.IsStateful() {
		return nil
	}
	out, _ := s.pickPort(now, in, number, p)
	return out
}

// pickPort returns a port of a group for p, other than in, and its number in the group;
// nil if there is none.
func (s *Switch) pickPort(now units.Time, in *port.Port, number uint16, p *packet.Packet) (out *port.Port, index uint32) {
	g := &s.groups[number]
	switch g.count {
	case 0:
	case 1:
		out = s.hopPorts[g.first]
	default:
		c := s.chooser.ChoosePath(now, p, number)
		index = c.PickAmong(g.count)
		if out = s.hopPorts[g.first+index]; out == in {
			return s.pickOther(g, in, c)
		}
	}
	if out == in {
		return nil, 0
	}
	return out, index
}

// nextHops returns the ports of a group.
func (s *Switch) nextHops(number uint16) []*port.Port {
	g := &s.groups[number]
	return s.hopPorts[g.first:][:g.count]
}

// pickOther is pickPort for a packet that cannot take the port chosen for it.
func (s *Switch) pickOther(g *group, in *port.Port, c forward.Choice) (out *port.Port, index uint32) {
	ports := s.hopPorts[g.first:][:g.count]
	others := uint32(0)
	for _, w := range ports {
		if w != in {
			others++
		}
	}
	if others == 0 {
		return nil, 0
	}
	n := c.PickOther(g.count, others)
	for i, w := range ports {
		if w == in {
			continue
		}
		if n == 0 {
			return w, uint32(i)
		}
		n--
	}
	return nil, 0
}

// hasWay reports whether choose would find a port, without making the choice.
func (s *Switch) hasWay(in *port.Port, p *packet.Packet, to packet.Endpoint) bool {
	if s.hasLooped(p, to) {
		return false
	}
	for _, w := range s.nextHops(s.routes[to]) {
		if w != in {
			return true
		}
	}
	return false
}

// PathOf returns the port through which packets such as p, which came in through in, leave
// the switch, or nil if there is none. It sets p.Dest to the destination that p has
// after that port. fixed is false if the choice depends on more than the packet's
// fields, so that each packet may leave through another port. PathOf changes only p.
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

// hasLooped reports whether static routes have forwarded a packet as often as they may.
func (s *Switch) hasLooped(p *packet.Packet, to packet.Endpoint) bool {
	return s.groups[s.routes[to]].static && p.StaticHops == MaxStaticHops
}

// lostFate returns why choosePort finds no port for a packet.
func (s *Switch) lostFate(p *packet.Packet, to packet.Endpoint) packet.Fate {
	if s.hasLooped(p, to) {
		return packet.Looped
	}
	return packet.NoRoute
}
