package fabric

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
)

// edgeHost joins an edge service to a station. It is the edge.Host of the service.
type edgeHost struct {
	edge.Port // the service's side of outlet
	station   *Station
	chosen    edge.Choice
	service   edge.Service
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

// addEdge adds the edge service of a host's interface, if it has one.
func (f *Fabric) addEdge(s *Station) {
	node := &f.Plan.Nodes[s.Node]
	if node.Edge.Settings == nil || s.Port.Link() == nil {
		return
	}
	name := f.Plan.PortName(s.Node, s.Index)
	h := &edgeHost{station: s, chosen: node.Edge, outlet: edge.NewOutlet(s.Port)}
	h.timer = f.engineOf(s.Node).NewTimer(h)
	h.Port = h.outlet.ServicePort(h)
	env := edge.Env{
		Host: h, Name: name, Line: s.LineRate(), MTU: s.Port.Link().MTU(), Classes: &node.QoS.Map,
		Rand: sim.NewRand(f.Plan.Seed, "edge "+name), Pool: f.ShardOf(s.Node).Pool,
		Now: f.engineOf(s.Node).Now,
	}
	for _, c := range node.Ports[s.Index].Classes {
		env.Limit[c.Priority] = c.Limit
	}
	h.service = node.Edge.Settings.New(env)
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
	h.station.pool.Free(p)
}

func (h *edgeHost) Peer(a netip.Addr) (found edge.Peer, ok bool) {
	f := h.station.fabric
	end, ok := f.findPort(h.station, a)
	if !ok {
		return found, false
	}
	s := f.stations[end.Node][end.Port]
	if s == nil || s == h.station || s.edge == nil || s.edge.chosen.Name != h.chosen.Name {
		return found, false
	}
	port := &f.Plan.Nodes[end.Node].Ports[end.Port]
	found.Line = f.Plan.Links[port.Link].Dir[port.End].Rate
	found.Address, ok = plan.AddressOf(port, a.Is6())
	return found, ok
}

func (h *edgeHost) Unwrap(now units.Time, p *packet.Packet, fate packet.Fate) {
	s := h.station
	h.unwrapped++
	if fate.IsDrop() {
		s.Port.DiscardPacket(now, p, fate)
		return
	}
	if dst, src := p.MACs(); dst != s.MAC && s.fabric.topology.Routed() {
		p.Dst, p.Src = s.MAC, src // the first hop's until now
		if p.Frame != nil {
			p.Dst.EncodeTo(p.Frame)
		}
	}
	s.deliver(now, s.Port, p)
}

func (h *edgeHost) Finish(p *packet.Packet) {
	h.finished++
	h.station.pool.Free(p)
}

func (h *edgeHost) Notify(now units.Time, p *packet.Packet) bool {
	n, ok := h.station.nic.(*nic)
	return ok && n.Device.NotifySender(n.clock.ReadAt(now), p)
}

func (h *edgeHost) Admit(now units.Time, p *packet.Packet) { h.station.Admit(now, p) }

func (h *edgeHost) Address(p *packet.Packet) bool {
	s, m := h.station, p.Message
	if h.to != m.To {
		path, ok := s.fabric.pathTo(s, m.To)
		if !ok {
			return false
		}
		from, ok := s.fabric.topology.Source(s.end(), m.To)
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
	return h.station.fabric.flowAddresses(flow)
}

func (h *edgeHost) Trip(key packet.FlowKey, size, answer units.Bytes) cc.Path {
	if key.Flow >= 0 {
		return h.station.trip(h.station.fabric.flowEnds[key.Flow][1].station, size, answer)
	}
	return h.station.tripTo(key.To, size, answer)
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
	for _, c := range s.fabric.Plan.Nodes[s.Node].Ports[s.Index].Classes {
		if c.Limit > 0 {
			h.room = min(h.room, c.Limit/2)
		}
	}
}

// HasEdge reports whether the station has an edge service.
func (s *Station) HasEdge() bool { return s.edge != nil }

// EdgeService returns the edge service of the station; nil if it has none. The rules of
// Fabric.EdgeOf apply.
func (s *Station) EdgeService() edge.Service {
	if s.edge == nil {
		return nil
	}
	return s.edge.service
}

// EdgeOf returns the edge service of the first interface of a host that has one, for
// programs that know the service: see its package. Use it from code that the host's engine
// runs, or while that engine does not run.
func (f *Fabric) EdgeOf(host string) (edge.Service, error) {
	h, err := f.firstEdge(host)
	if err != nil {
		return nil, err
	}
	return h.service, nil
}

func (f *Fabric) firstEdge(host string) (*edgeHost, error) {
	n, ok := f.Plan.Node(host)
	if !ok || f.Plan.Nodes[n].Kind != plan.Host {
		return nil, fmt.Errorf("there is no host %s", host)
	}
	for _, s := range f.stations[n] {
		if s != nil && s.edge != nil {
			return s.edge, nil
		}
	}
	return nil, fmt.Errorf("%s has no edge service: write for example edge: eqds for it in the lab file", host)
}

// GoEdge starts a program on a host, as Go does for programs that use its NIC: a process of
// the engine that runs the host, with the edge service that EdgeOf returns.
func (f *Fabric) GoEdge(host string, program func(p *sim.Process, s edge.Service)) (*sim.Process, error) {
	h, err := f.firstEdge(host)
	if err != nil {
		return nil, err
	}
	return f.engineOf(h.station.Node).Go(host, func(p *sim.Process) { program(p, h.service) }), nil
}
