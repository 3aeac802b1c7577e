// Package switches implements the switch, which chooses the port through which each
// packet leaves.
//
// A switch looks up the destination of a packet in an array of endpoints. Where several
// ports lead there, its forward.Chooser picks one (path.go). The endpoint was found where the
// packet entered, unless the packet has an Ethernet address that is not in the lab file at
// that place (packet.ByMAC): then each switch looks at its addresses, and learns (learn.go).
//
// A switch with addresses is a router (route.go). Its ports are endpoints after those of
// stations, so plain switches forward to them as to hosts. Packet.Dest is where the
// Ethernet frame goes; Packet.To is the number of the IP destination, looked up once where
// the packet enters. A router looks up To; only addresses that no host has go through the
// prefixes. It writes TTL, checksum and MACs into Frame, and the MACs into Packet.Src and
// Dst too, because the pieces of a super-packet share their bytes.
package switches

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/forward"
	"github.com/weftlab/weft/switches/port"
)

// Table says where packets leave a switch. It is computed from the topology.
type Table struct {
	// Route[e] is the index in Groups of the ports that lead to endpoint e;
	// group 0 is the empty one.
	Route []uint16
	// Groups are ports among which the switch chooses. A port that occurs several
	// times is chosen proportionally more often (WCMP: Zhou et al., EuroSys 2014,
	// §3).
	Groups [][]uint16
	// Static[g] says whether group g belongs to a static route; groups beyond its
	// end do not.
	Static []bool
	// Tree[i] says whether port i belongs to the tree for broadcast, multicast and
	// unknown unicast.
	Tree []bool
	// Branch returns the port of the tree that leads to an endpoint, -1 if none does. May
	// be nil in a network in which no packet is forwarded by Ethernet addresses.
	Branch func(packet.Endpoint) int
	// Trunk[i] says whether port i leads to another plain switch; ports beyond its end do
	// not.
	Trunk []bool
}

// Switch forwards without delay: only reception of the whole packet, the queue and
// the serialisation take time.
type Switch struct {
	Name  string
	Ports []*port.Port

	// The table in the form used for lookups: the ports to endpoint e are
	// groups[routes[e]] of hopPorts.
	routes   []uint16
	groups   []group
	hopPorts []*port.Port
	chooser  forward.Chooser
	moved    bool     // an address of the lab file is elsewhere
	router   *routing // in route.go; nil for a plain switch

	chassis *port.Chassis // nil if all ports are plain

	learning Learning // in learn.go
	onTree   bool
	unknown  uint64

	routersUntil []units.Time // by port: until then it leads to a multicast router; nil if none has been heard

	seed       uint64 // of ECMP
	table      Table
	pool       *packet.Pool
	replicated uint64
	originated uint64
	consumed   uint64
	unsent     uint64
}

// New returns a switch without ports. seed determines how ECMP spreads flows.
func New(name string, seed uint64, pool *packet.Pool) *Switch {
	s := &Switch{Name: name, seed: seed, pool: pool}
	s.SetForwarding(nil, nil)
	return s
}

// Table returns the forwarding table.
func (s *Switch) Table() Table { return s.table }

// ReplicatedPackets returns the number of copies made of packets to several ports.
func (s *Switch) ReplicatedPackets() uint64 { return s.replicated }

// OriginatedPackets returns the number of packets that the switch generated.
func (s *Switch) OriginatedPackets() uint64 { return s.originated }

// ConsumedPackets returns the number of packets that were for the switch itself: for a router's
// address, and about multicast groups.
func (s *Switch) ConsumedPackets() uint64 { return s.consumed }

// SetChassis sets what the ports of a switch with traffic classes share.
func (s *Switch) SetChassis(c *port.Chassis) {
	s.chassis = c
	c.Forward = s.forwardReturned
}

// Chassis returns what the ports of a switch with traffic classes share, nil for
// plain ports.
func (s *Switch) Chassis() *port.Chassis { return s.chassis }

// UnsentPackets returns the number of generated packets that had no route or were refused.
func (s *Switch) UnsentPackets() uint64 { return s.unsent }

// InputPacket forwards a packet or a train.
func (s *Switch) InputPacket(now units.Time, in *port.Port, p *packet.Packet) {
	if p.Kind == packet.Train {
		s.inputTrain(now, in, p)
		return
	}
	if s.chassis != nil {
		p.In = uint16(in.Index)
		s.chassis.ClassifyPacket(p)
		in.CountReceived(p)
	}
	if s.router != nil {
		s.routePacket(now, in, p)
		return
	}
	if p.Dest < 0 || s.moved {
		if fate := s.sendByMAC(now, in, p); fate != packet.Fine {
			in.DiscardPacket(now, p, fate)
		}
		return
	}
	out := s.choosePort(now, in, p, p.Dest)
	if out == nil {
		in.DiscardPacket(now, p, s.lostFate(p, p.Dest))
		return
	}
	out.Send(now, p)
}

// inputTrain forwards a train whole if all of its packets leave through the same port and nothing
// more happens to them.
func (s *Switch) inputTrain(now units.Time, in *port.Port, p *packet.Packet) {
	if s.chassis == nil && s.router == nil {
		if p.Dest < 0 || s.moved {
			if s.trainByMAC(now, in, p) {
				return
			}
		} else if out := s.chooseTrain(now, in, p, p.Dest); out != nil {
			out.Send(now, p)
			return
		}
	}
	s.pool.SplitTrain(p, func(q *packet.Packet) { s.InputPacket(now, in, q) })
}

// OriginatePacket sends a packet that the switch generated, such as a congestion point's
// feedback, towards its destination.
func (s *Switch) OriginatePacket(now units.Time, p *packet.Packet) {
	s.classifyOwn(p)
	if s.router != nil {
		s.originateRouted(now, p)
		return
	}
	s.originated++
	if p.Dest < 0 || s.moved {
		if s.sendByMAC(now, nil, p) == packet.Fine {
			return
		}
	} else if out := s.choosePort(now, nil, p, p.Dest); out != nil {
		out.Send(now, p)
		return
	}
	s.unsent++
	s.pool.Free(p)
}

// RefusePacket drops a generated packet that cannot be sent.
func (s *Switch) RefusePacket(p *packet.Packet) {
	s.originated++
	s.unsent++
	s.pool.Free(p)
}

// classifyOwn sets the priority of a packet that the switch generated.
func (s *Switch) classifyOwn(p *packet.Packet) {
	if s.chassis != nil {
		p.In = buffer.Own
		s.chassis.ClassifyPacket(p)
	}
}

// forwardReturned sends a packet that a port has turned round towards its new destination.
// The packet keeps the class in which it was turned.
func (s *Switch) forwardReturned(now units.Time, p *packet.Packet) {
	if s.router != nil {
		s.forwardRouted(now, p)
		return
	}
	out := s.choosePort(now, nil, p, p.Dest)
	if out == nil {
		s.discardTurned(now, p, s.lostFate(p, p.Dest))
		return
	}
	out.Send(now, p)
}

// discardTurned drops a packet without a path back, at the port that it came in
// through. The first port stands for the switch itself.
func (s *Switch) discardTurned(now units.Time, p *packet.Packet, fate packet.Fate) {
	in := s.Ports[0]
	if p.In != buffer.Own {
		in = s.Ports[p.In]
	}
	in.DiscardPacket(now, p, fate)
}

// PeekFate returns Fine if there is a path for p, or the reason why there is none.
func (s *Switch) PeekFate(now units.Time, in *port.Port, p *packet.Packet) packet.Fate {
	if s.router != nil {
		return s.foreseeRoute(in, p)
	}
	if p.Dest < 0 || s.moved {
		return s.peekByMAC(now, in, p)
	}
	if !s.hasWay(in, p, p.Dest) {
		return s.lostFate(p, p.Dest)
	}
	return packet.Fine
}

// peekFlood returns Fine if a flooded packet that came in through in leaves through any port.
func (s *Switch) peekFlood(in *port.Port) packet.Fate {
	for i, q := range s.Ports {
		if s.isFloodPort(i, q, in) {
			return packet.Fine
		}
	}
	return packet.NoRoute
}

// isFloodPort reports whether a flooded packet that came in through in leaves through q,
// port i.
func (s *Switch) isFloodPort(i int, q, in *port.Port) bool {
	return q != in && s.table.Tree[i] && q.Link() != nil
}

// floodPacket sends a copy to every tree port except the one the packet came in on. It
// returns false if there is none; the caller then still owns the packet.
func (s *Switch) floodPacket(now units.Time, in *port.Port, p *packet.Packet) bool {
	return s.floodWhere(now, in, p, func(int) bool { return true })
}

// floodWhere does so with those of the ports for which isWanted is true.
func (s *Switch) floodWhere(now units.Time, in *port.Port, p *packet.Packet, isWanted func(port int) bool) bool {
	var out *port.Port
	for i, q := range s.Ports {
		if !s.isFloodPort(i, q, in) || !isWanted(i) {
			continue
		}
		if out != nil {
			s.replicated++
			out.Send(now, s.pool.ClonePacket(p))
		}
		out = q
	}
	if out == nil {
		return false
	}
	out.Send(now, p)
	return true
}
