// Package switches is the store-and-forward switch: it chooses, for every
// packet, the port through which it leaves.
package switches

import (
	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/switches/port"
)

// Table says where packets leave a switch. It is computed from the topology.
type Table struct {
	// Route[e] is the index in Groups of the ports that lead to endpoint e,
	// in equal numbers of hops; group 0 is the empty one.
	Route []uint16
	// Groups are sets of ports among which a flow is spread by its hash.
	Groups [][]uint16
	// Tree[i] tells whether port i belongs to the tree along which
	// broadcast, multicast and unknown unicast travel.
	Tree []bool
}

// Switch forwards at once: what takes time is the receiving of the whole
// packet, the queue and the serialisation.
type Switch struct {
	Name  string
	Ports []*port.Port

	// The table, as it is looked up: the ports to endpoint e are
	// groups[routes[e]] of ways.
	routes []uint16
	groups []way
	ways   []*port.Port
	seed   uint64   // of ECMP
	router *routing // in route.go; nil for a plain switch

	table      Table
	pool       *packet.Pool
	replicated uint64
	originated uint64
	consumed   uint64
}

// way is a part of Switch.ways.
type way struct{ first, count uint32 }

// New makes a switch without ports; seed decides how ECMP spreads flows.
func New(name string, seed uint64, pool *packet.Pool) *Switch {
	return &Switch{Name: name, seed: packet.Mix(seed), pool: pool}
}

// SetTable gives the switch its forwarding table. Its ports must be there.
func (s *Switch) SetTable(t Table) {
	s.table, s.ways = t, nil
	s.groups = make([]way, len(t.Groups))
	for i, g := range t.Groups {
		s.groups[i] = way{uint32(len(s.ways)), uint32(len(g))}
		for _, p := range g {
			s.ways = append(s.ways, s.Ports[p])
		}
	}
	s.routes = t.Route
}

// Table is the forwarding table.
func (s *Switch) Table() Table { return s.table }

// Replicated counts the copies made of packets that are sent to several ports.
func (s *Switch) Replicated() uint64 { return s.replicated }

// Originated counts the packets of the switch's own that were sent.
func (s *Switch) Originated() uint64 { return s.originated }

// Consumed counts the packets that ended here because they were for the switch
// itself.
func (s *Switch) Consumed() uint64 { return s.consumed }

// Input forwards a packet.
func (s *Switch) Input(now units.Time, in *port.Port, p *packet.Packet) {
	if s.router != nil {
		s.route(now, in, p)
		return
	}
	if p.Dest == packet.Flood {
		if !s.flood(now, in, p) {
			in.Discard(now, p, packet.NoRoute)
		}
		return
	}
	out := s.choose(p)
	if out == nil || out == in {
		in.Discard(now, p, packet.NoRoute)
		return
	}
	out.Send(now, p)
}

// Originate sends a packet of the switch's own, such as a congestion point's
// feedback, towards its destination.
func (s *Switch) Originate(now units.Time, p *packet.Packet) {
	if s.router != nil {
		s.originateRouted(now, p)
		return
	}
	if p.Dest == packet.Flood {
		if s.flood(now, nil, p) {
			s.originated++
			return
		}
	} else if out := s.choose(p); out != nil {
		s.originated++
		out.Send(now, p)
		return
	}
	s.pool.Free(p)
}

// choose gives the port towards p's destination, nil when there is none.
func (s *Switch) choose(p *packet.Packet) *port.Port { return s.pick(s.routes[p.Dest], p) }

// pick gives the port of a group through which p leaves, nil when there is
// none.
func (s *Switch) pick(group uint16, p *packet.Packet) *port.Port {
	w := s.groups[group]
	switch w.count {
	case 0:
		return nil
	case 1:
		return s.ways[w.first]
	}
	// The high bits of the product choose without the bias or the cost of a
	// division.
	h := packet.Mix(p.Hash^s.seed) >> 32
	return s.ways[w.first+uint32(h*uint64(w.count)>>32)]
}

// portsOf gives the ports of a group.
func (s *Switch) portsOf(group uint16) []*port.Port {
	w := s.groups[group]
	return s.ways[w.first:][:w.count]
}

// Foresee tells whether there is a way for p.
func (s *Switch) Foresee(in *port.Port, p *packet.Packet) packet.Fate {
	if s.router != nil {
		return s.foreseeRoute(in, p)
	}
	if p.Dest == packet.Flood {
		for i, q := range s.Ports {
			if s.floods(i, q, in) {
				return packet.Fine
			}
		}
		return packet.NoRoute
	}
	if out := s.choose(p); out == nil || out == in {
		return packet.NoRoute
	}
	return packet.Fine
}

// floods tells whether what floods in through in leaves through q, port i.
func (s *Switch) floods(i int, q, in *port.Port) bool {
	return q != in && s.table.Tree[i] && q.Link() != nil
}

// flood sends a copy to every tree port but the one the packet came in on. It
// reports false when there is none, and then the packet is still the caller's.
func (s *Switch) flood(now units.Time, in *port.Port, p *packet.Packet) bool {
	var out *port.Port
	for i, q := range s.Ports {
		if !s.floods(i, q, in) {
			continue
		}
		if out != nil {
			s.replicated++
			out.Send(now, s.pool.Clone(p))
		}
		out = q
	}
	if out == nil {
		return false
	}
	out.Send(now, p)
	return true
}
