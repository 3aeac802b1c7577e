package hosts

import (
	"math"
	"math/rand/v2"
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
)

// edgeHost joins an edge service to a station. It is the edge.Host of the service.
type edgeHost struct {
	edge.Port // the service's side of outlet
	station   *Station
	chosen    edge.Choice
	service   edge.Service
	limit     [class.Count]units.Bytes // of the port's classes
	line      units.Rate               // of the link when the run begins
	outlet    *edge.Outlet
	timer     sim.Timer

	// The path that Address found last. The location of an address does not change during a
	// run.
	to, from netip.Addr
	path     nicemu.Path

	unwrapped, finished uint64 // packets that came out of tunnels, and packets whose copies did

	backlogs []backlog   // by the queue of the real host's device
	waiting  units.Bytes // in all of them
	room     units.Bytes // limit of waiting
	high     units.Bytes // limit of one backlog
	full     func(now units.Time, queue int, full bool)
}

// backlog is what waits in the service and came from one queue of the device.
type backlog struct {
	bytes units.Bytes
	full  bool
}

// AddEdge gives the station an edge service. limit is the most that each class of the port may
// hold (edge.Env.Limit), and random is for the service. Call it before AddNIC.
func (s *Station) AddEdge(c edge.Choice, limit [class.Count]units.Bytes, random *rand.Rand) {
	h := &edgeHost{station: s, chosen: c, limit: limit, line: s.Port.Link().Rate(), outlet: edge.NewOutlet(s.Port)}
	h.timer = s.Engine.NewTimer(h)
	h.Port = h.outlet.ServicePort(h)
	h.service = c.Settings.New(edge.Env{
		Host: h, Name: s.Name, Line: s.LineRate(), MTU: s.Port.Link().MTU(), Classes: &s.chassis.Map,
		Limit: limit, Rand: random, Pool: s.Pool, Now: s.Engine.Now,
	})
	if t, ok := h.service.(edge.Taker); ok {
		s.SetReceiver(t.TakenProtocol(), t.TakePacket)
	}
	s.edge = h
	s.Port.SetFeeder(h.outlet)
}

// feedBy makes a NIC feed the station's port. With an edge service, the NIC feeds the
// port through the service or around it.
func (s *Station) feedBy(n *nic) nicemu.Port {
	if s.edge == nil {
		s.Port.SetFeeder(n)
		return s.Port
	}
	if t, ok := s.edge.service.(edge.TakesNIC); ok {
		return t.NICPort(n)
	}
	return s.edge.outlet.NICPort(n)
}

// enterService takes a packet that the host sends. Until it leaves the service, its In is
// the device queue that it came from.
func (h *edgeHost) enterService(now units.Time, p *packet.Packet) {
	queue := p.In
	h.station.Admit(now, p)
	p.In = queue
	h.service.SendPacket(now, p)
}

// Next returns a packet of the service for the port.
func (h *edgeHost) Next(now units.Time, prio uint8) *packet.Packet { return h.service.Next(now, prio) }

// Fire runs the service's timer.
func (h *edgeHost) Fire(now units.Time) { h.service.Fire(now) }

// Arm implements edge.Host, as do the methods below.
func (h *edgeHost) Arm(at units.Time) { h.timer.Arm(at) }

func (h *edgeHost) Disarm() { h.timer.Disarm() }

func (h *edgeHost) Pass(now units.Time, p *packet.Packet) {
	p.In = buffer.Own
	h.station.Port.Send(now, p)
}

func (h *edgeHost) Drop(now units.Time, p *packet.Packet, why packet.Fate) {
	h.station.Port.RefusePacket(now, p, why)
}

func (h *edgeHost) DeliverPacket(now units.Time, p *packet.Packet) {
	h.station.deliver(now, h.station.Port, p)
}

func (h *edgeHost) Consume(_ units.Time, p *packet.Packet) {
	h.station.countIn(p)
	h.station.Pool.Free(p)
}

// Peer runs on the engine of the host, and reads what does not change of the other.
func (h *edgeHost) Peer(a netip.Addr) (found edge.Peer, ok bool) {
	s := h.station.Network.StationWith(a)
	if s == nil || s == h.station || s.edge == nil || s.edge.chosen.Name != h.chosen.Name {
		return found, false
	}
	found.Line = s.edge.line
	found.Address, ok = s.firstAddress(a.Is6())
	return found, ok
}

// firstAddress returns the first address of an IP version.
func (s *Station) firstAddress(ipv6 bool) (netip.Addr, bool) {
	for _, a := range s.Addresses {
		if a.Is6() == ipv6 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func (h *edgeHost) Unwrap(now units.Time, p *packet.Packet, fate packet.Fate) {
	s := h.station
	h.unwrapped++
	if fate.IsDrop() {
		s.Port.DiscardPacket(now, p, fate)
		return
	}
	if dst, src := p.MACs(); dst != s.MAC && s.Routed {
		p.Dst, p.Src = s.MAC, src // the first hop's until now
		if p.Frame != nil {
			p.Dst.EncodeTo(p.Frame)
		}
	}
	s.deliver(now, s.Port, p)
}

func (h *edgeHost) Finish(p *packet.Packet) {
	h.finished++
	h.station.Pool.Free(p)
}

func (h *edgeHost) Notify(now units.Time, p *packet.Packet) bool {
	n, ok := h.station.nic.(*nic)
	return ok && n.Device.NotifySender(n.clock.ReadAt(now), p)
}

func (h *edgeHost) Admit(now units.Time, p *packet.Packet) { h.station.Admit(now, p) }

func (h *edgeHost) Address(p *packet.Packet) bool {
	s, m := h.station, p.Message
	if h.to != m.To {
		path, ok := s.Network.PathTo(m.To)
		if !ok {
			return false
		}
		from, ok := s.Network.SourceTo(m.To)
		if !ok {
			return false
		}
		h.to, h.from, h.path = m.To, from, path
	}
	path := h.path
	m.From = h.from
	p.Dest, p.To, p.Dst, p.Src = path.Dest, path.To, path.MAC, s.MAC
	p.SetFields()
	return true
}

func (h *edgeHost) Ends(flow int32) (from, to netip.Addr) {
	return h.station.Network.EndsOfFlow(flow)
}

func (h *edgeHost) Trip(key packet.FlowKey, size, answer units.Bytes) cc.Path {
	if key.Flow >= 0 {
		return h.station.Network.TripOfFlow(key.Flow, size, answer)
	}
	return h.station.Network.TripTo(key.To, size, answer)
}

func (h *edgeHost) Waits(now units.Time, p *packet.Packet) { h.wait(now, p, p.Size) }

func (h *edgeHost) Leaves(now units.Time, p *packet.Packet) { h.wait(now, p, -p.Size) }

// wait adds n bytes to the backlog that p belongs to.
func (h *edgeHost) wait(now units.Time, p *packet.Packet, n units.Bytes) {
	if int(p.In) >= len(h.backlogs) {
		return
	}
	b := &h.backlogs[p.In]
	b.bytes += n
	h.waiting += n
	high := max(min(h.high, h.room-h.waiting), 0)
	if full := b.bytes > high || b.full && b.bytes > high/2; full != b.full {
		b.full = full
		h.full(now, int(p.In), full)
	}
}

// Watch makes the station call f when more than high bytes from one queue of the host's
// device wait in the edge service, and again when they have fallen to half of that. The
// bound is lower while much waits across all queues. This leaves room in the host's own
// queue, by whose limit services drop, for what arrives before a queue is held. Watch
// does nothing without an edge service. Another call changes the bound.
func (s *Station) Watch(queues int, high units.Bytes, f func(now units.Time, queue int, full bool)) {
	h := s.edge
	if h == nil {
		return
	}
	if h.backlogs == nil {
		h.backlogs = make([]backlog, queues)
	}
	h.high, h.full, h.room = high, f, math.MaxInt64
	for _, limit := range h.limit {
		if limit > 0 {
			h.room = min(h.room, limit/2)
		}
	}
}

// HasEdge reports whether the station has an edge service.
func (s *Station) HasEdge() bool { return s.edge != nil }

// EdgeService returns the edge service of the station; nil if it has none. Use it from code that
// the host's engine runs, or while that engine does not run.
func (s *Station) EdgeService() edge.Service {
	if s.edge == nil {
		return nil
	}
	return s.edge.service
}

// EdgeChoice returns how the edge service was chosen; the zero Choice if the station has none.
func (s *Station) EdgeChoice() edge.Choice {
	if s.edge == nil {
		return edge.Choice{}
	}
	return s.edge.chosen
}

// TunnelledPackets returns the number of packets that the edge service has taken out of others, and
// the number of packets of the host that ended because their copies came out at the other end.
func (s *Station) TunnelledPackets() (unwrapped, finished uint64) {
	if s.edge == nil {
		return 0, 0
	}
	return s.edge.unwrapped, s.edge.finished
}
