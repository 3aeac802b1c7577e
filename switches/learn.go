package switches

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/mactable"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/router"
	"github.com/weftlab/weft/wire"
)

// Stations knows the addresses of the lab file in the broadcast domain of a switch. They are
// its static entries: they do not age, but it follows an address that appears elsewhere.
type Stations interface {
	// ByMAC returns the endpoint that has an Ethernet address.
	ByMAC(wire.MAC) (packet.Endpoint, bool)
	// ByIP returns the endpoint that has an IP address.
	ByIP(netip.Addr) (packet.Endpoint, bool)
}

// Learning says what a plain switch knows about Ethernet addresses.
type Learning struct {
	// Table is what the switch learns; nil if it does not learn. Then it forwards frames to
	// an unknown Ethernet address by their IP address.
	Table    *mactable.Table
	Stations Stations
}

// SetLearning sets how the switch finds out where Ethernet addresses are. Without it, it
// knows none of those that packets with the Dest packet.ByMAC go to. A switch that is not on
// the tree for flooded packets does not learn.
func (s *Switch) SetLearning(l Learning) { s.learning = l }

// MACTable returns the table of learned addresses, nil if the switch does not learn.
func (s *Switch) MACTable() *mactable.Table { return s.learning.Table }

// Unknown returns the number of packets to one station that the switch sent to all because
// it did not know where the station is.
func (s *Switch) Unknown() uint64 { return s.unknown }

// FlushMACs forgets the addresses that are reached through a port only, whose link goes down.
func (s *Switch) FlushMACs(down *port.Port) {
	t := s.learning.Table
	if t == nil {
		return
	}
	t.FlushEntries(func(e packet.Endpoint) bool {
		ports := s.nextHops(s.routes[e])
		for _, w := range ports {
			if w != down {
				return false
			}
		}
		return len(ports) > 0
	})
	s.moved = t.Moved() > 0
}

// decision is what the switch does with a packet that it forwards by Ethernet addresses.
type decision struct {
	action action
	to     packet.Endpoint // of toEndpoint
	out    *port.Port      // of along
	fate   packet.Fate     // of refuse
}

type action uint8

const (
	toAll      action = iota // of a group, except reports about groups (snoop.go)
	toUnknown                // to all, because nobody knows its place
	toEndpoint               // by the computed paths
	along                    // one branch of the tree
	refuse
)

// sendByMAC learns from a packet, and forwards it by its Ethernet addresses. It returns a
// reason if it cannot; then the caller still owns the packet. in is nil for a packet of the
// switch itself.
func (s *Switch) sendByMAC(now units.Time, in *port.Port, p *packet.Packet) packet.Fate {
	s.learn(now, p)
	switch d := s.decide(now, in, p); d.action {
	case toEndpoint:
		out := s.choosePort(now, in, p, d.to)
		if out == nil {
			return s.filtered(in, p, d.to)
		}
		p.Dest = destTo(p, d.to)
		out.Send(now, p)
	case along:
		p.Dest = packet.ByMAC
		d.out.Send(now, p)
	case refuse:
		return d.fate
	default:
		if d.action == toUnknown {
			s.unknown++
			p.Dest = packet.ByMAC
		} else if s.sendReport(now, in, p) {
			return packet.Fine
		}
		if !s.floodPacket(now, in, p) {
			return packet.NoRoute
		}
	}
	return packet.Fine
}

// trainByMAC is sendByMAC for a train. It returns false if its packets must be sent one by
// one.
func (s *Switch) trainByMAC(now units.Time, in *port.Port, p *packet.Packet) bool {
	s.learn(now, p)
	switch d := s.decide(now, in, p); d.action {
	case toEndpoint:
		out := s.chooseTrain(now, in, p, d.to)
		if out == nil {
			return false
		}
		p.Dest = destTo(p, d.to)
		out.Send(now, p)
		return true
	case along:
		p.Dest = packet.ByMAC
		d.out.Send(now, p)
		return true
	}
	return false
}

// destTo returns the Dest of p on the way to an endpoint: unchanged if it goes there anyway.
func destTo(p *packet.Packet, e packet.Endpoint) packet.Endpoint {
	if p.Dest == e {
		return e
	}
	return packet.Toward(e)
}

// filtered returns why there is no path for a packet to an endpoint: it is where the packet came
// from, or cut off, or static routes form a loop.
func (s *Switch) filtered(in *port.Port, p *packet.Packet, e packet.Endpoint) packet.Fate {
	if s.hasLooped(p, e) {
		return packet.Looped
	}
	for _, w := range s.nextHops(s.routes[e]) {
		if w == in {
			return packet.Filtered
		}
	}
	return packet.NoRoute
}

// peekByMAC returns what sendByMAC would return, and changes nothing.
func (s *Switch) peekByMAC(now units.Time, in *port.Port, p *packet.Packet) packet.Fate {
	switch d := s.decide(now, in, p); d.action {
	case toEndpoint:
		if s.hasWay(in, p, d.to) {
			return packet.Fine
		}
		return s.filtered(in, p, d.to)
	case along:
		return packet.Fine
	case refuse:
		return d.fate
	case toAll:
		if membershipOf(in, p) == wire.MembershipReport {
			return packet.Fine
		}
	}
	return s.peekFlood(in)
}

// setOnTree notes whether the switch is on the tree. Other switches lie between those with
// stations, on some of several paths. They do not see what is flooded, so they would know
// less than the switch that sent the packet: they do not learn.
func (s *Switch) setOnTree() {
	s.onTree = slices.Contains(s.table.Tree, true)
	if t := s.learning.Table; t != nil && !s.onTree {
		t.FlushEntries(func(packet.Endpoint) bool { return true })
		s.moved = false
	}
}

// learn learns the place of a packet's source. The source of a packet that is not forwarded
// by Ethernet addresses is the station that has its address in the lab file: if that had
// moved, it is back.
func (s *Switch) learn(now units.Time, p *packet.Packet) {
	t := s.learning.Table
	if t == nil || !s.onTree || p.BadFCS || !p.Dest.IsByMAC() && (!s.moved || !hasMACs(p)) {
		return
	}
	_, src := p.MACs()
	k := mactable.Key{VLAN: p.VLAN(), MAC: src}
	switch foreign, static := s.isForeign(p, src); {
	case foreign:
		t.Learn(now, k, p.Origin, static)
	case !p.Returned:
		t.Return(k)
	}
	s.moved = t.Moved() > 0
}

// hasMACs reports whether a packet has Ethernet addresses. One that a congestion point made may
// have none.
func hasMACs(p *packet.Packet) bool { return p.Dst != 0 || p.Ethernet() != nil }

// isForeign reports whether a switch learns from a packet with this source, and whether the
// lab file has the source elsewhere. Groups send nothing, and nobody has the address 0.
func (s *Switch) isForeign(p *packet.Packet, src wire.MAC) (foreign, static bool) {
	if !p.Dest.IsByMAC() || src.IsMulticast() || src == 0 {
		return false, false
	}
	own, static := s.byMAC(src)
	return !static || own != p.Origin, static
}

// decide decides where a packet goes.
//
// The first switch on the path sends the packet towards the endpoint that it knows, by the
// computed paths, which form no loop; or, if it knows none, along the branches of the tree.
// A packet on the tree stays there, and a switch that knows the place sends it along one
// branch instead of all. A packet with a direction keeps it at switches that know no place.
// One that has learned another place moves the packet to the tree, unless that leads back.
// So a packet changes from paths to the tree once at most, and never turns back on the tree:
// it ends, whatever the tables of the switches say.
func (s *Switch) decide(now units.Time, in *port.Port, p *packet.Packet) decision {
	if p.Dest == packet.Flood {
		return decision{action: toAll}
	}
	to, directed := p.Dest.Heading()
	if !hasMACs(p) {
		return decision{action: toEndpoint, to: to}
	}
	dst, src := p.MACs()
	if dst.IsMulticast() {
		switch {
		case directed:
			return decision{action: toEndpoint, to: to}
		case dst.Reserved():
			return decision{action: refuse, fate: packet.Filtered}
		}
		return decision{action: toAll}
	}
	at, known, learned := s.find(now, p, dst, src)
	switch {
	case !s.fromSwitch(in):
		switch {
		case directed && !learned:
			return decision{action: toEndpoint, to: to}
		case known:
			return decision{action: toEndpoint, to: at}
		}
	case directed:
		if learned && at != to {
			if out := s.branchTo(at); out != nil && out != in {
				return decision{action: along, out: out}
			}
		}
		return decision{action: toEndpoint, to: to}
	case known:
		switch out := s.branchTo(at); out {
		case nil:
			return decision{action: refuse, fate: packet.NoRoute}
		case in:
			return decision{action: refuse, fate: packet.Filtered}
		default:
			return decision{action: along, out: out}
		}
	}
	return decision{action: toUnknown}
}

// find returns the endpoint behind which a packet's destination is, and whether it was learned.
func (s *Switch) find(now units.Time, p *packet.Packet, dst, src wire.MAC) (at packet.Endpoint, known, learned bool) {
	static, known := s.byMAC(dst)
	if t := s.learning.Table; t != nil {
		if dst == src { // it is where the packet came from, as learn finds out
			if foreign, _ := s.isForeign(p, src); foreign {
				return p.Origin, true, true
			}
			return static, known, false
		}
		if known && !s.moved || !s.onTree {
			return static, known, false
		}
		if at, found := t.Find(now, mactable.Key{VLAN: p.VLAN(), MAC: dst}); found {
			return at, true, true
		}
		return static, known, false
	}
	if known || s.learning.Stations == nil {
		return static, known, false
	}
	at, known = s.byIP(p)
	return at, known, false
}

func (s *Switch) byMAC(m wire.MAC) (packet.Endpoint, bool) {
	if s.learning.Stations == nil {
		return 0, false
	}
	return s.learning.Stations.ByMAC(m)
}

// byIP returns the endpoint that has the IP destination of a packet.
func (s *Switch) byIP(p *packet.Packet) (packet.Endpoint, bool) {
	if p.Version == 0 {
		return 0, false
	}
	to, ok := p.Destination()
	if b := p.Ethernet(); b != nil {
		to, ok = router.DestinationOf(b[p.L3:]), true
	}
	if !ok {
		return 0, false
	}
	return s.learning.Stations.ByIP(to)
}

// fromSwitch reports whether another plain switch is behind a port.
func (s *Switch) fromSwitch(in *port.Port) bool {
	return in != nil && in.Index < len(s.table.Trunk) && s.table.Trunk[in.Index]
}

// branchTo returns the port of the tree that leads to an endpoint; nil if none does.
func (s *Switch) branchTo(e packet.Endpoint) *port.Port {
	if s.table.Branch == nil {
		return nil
	}
	if i := s.table.Branch(e); i >= 0 {
		return s.Ports[i]
	}
	return nil
}
