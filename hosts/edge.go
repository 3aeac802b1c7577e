package hosts

import (
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

// edgeHost joins an edge service to an interface. It is the edge.Host of the service.
type edgeHost struct {
	edge.Port // the service's side of outlet
	iface     *Interface
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

// AddEdge gives the interface an edge service. limit is the most that each class of the port may
// hold (edge.Env.Limit), and random is for the service. Call it before AddNIC.
func (i *Interface) AddEdge(c edge.Choice, limit [class.Count]units.Bytes, random *rand.Rand) {
	h := &edgeHost{iface: i, chosen: c, limit: limit, line: i.Port.Link().Rate(), outlet: edge.NewOutlet(i.Port)}
	h.timer = i.Engine.NewTimer(h)
	h.Port = h.outlet.ServicePort(h)
	h.service = c.Settings.New(edge.Env{
		Host: h, Name: i.Name, Line: i.LineRate(), MTU: i.Port.Link().MTU(), Classes: &i.chassis.Map,
		Limit: limit, Rand: random, Pool: i.Pool, Now: i.Engine.Now,
	})
	if t, ok := h.service.(edge.Taker); ok {
		i.SetReceiver(t.TakenProtocol(), t.TakePacket)
	}
	i.edge = h
	i.Port.SetFeeder(h.outlet)
}

// feedBy makes a NIC feed the interface's port. With an edge service, the NIC feeds the
// port through the service or around it.
func (i *Interface) feedBy(n *nic) nicemu.Port {
	if i.edge == nil {
		i.Port.SetFeeder(n)
		return i.Port
	}
	if t, ok := i.edge.service.(edge.TakesNIC); ok {
		return t.NICPort(n)
	}
	return i.edge.outlet.NICPort(n)
}

// enterService takes a packet that the host sends. Until it leaves the service, its In is
// the device queue that it came from.
func (h *edgeHost) enterService(now units.Time, p *packet.Packet) {
	queue := p.In
	h.iface.Admit(now, p)
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
	h.iface.Port.Send(now, p)
}

func (h *edgeHost) Drop(now units.Time, p *packet.Packet, why packet.Fate) {
	h.iface.Port.RefusePacket(now, p, why)
}

func (h *edgeHost) DeliverPacket(now units.Time, p *packet.Packet) {
	h.iface.deliver(now, h.iface.Port, p)
}

func (h *edgeHost) Consume(_ units.Time, p *packet.Packet) {
	h.iface.countIn(p)
	h.iface.Pool.Free(p)
}

// Peer runs on the engine of the host, and reads what does not change of the other.
func (h *edgeHost) Peer(a netip.Addr) (found edge.Peer, ok bool) {
	i := h.iface.Network.InterfaceWith(a)
	if i == nil || i == h.iface || i.edge == nil || i.edge.chosen.Name != h.chosen.Name {
		return found, false
	}
	found.Line = i.edge.line
	found.Address, ok = i.firstAddress(a.Is6())
	return found, ok
}

// firstAddress returns the first address of an IP version.
func (i *Interface) firstAddress(ipv6 bool) (netip.Addr, bool) {
	for _, a := range i.Addresses {
		if a.Is6() == ipv6 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func (h *edgeHost) Unwrap(now units.Time, p *packet.Packet, fate packet.Fate) {
	i := h.iface
	h.unwrapped++
	if fate.IsDrop() {
		i.Port.DiscardPacket(now, p, fate)
		return
	}
	if dst, src := p.MACs(); dst != i.MAC && i.Routed {
		p.Dst, p.Src = i.MAC, src // the first hop's until now
		if p.Frame != nil {
			p.Dst.EncodeTo(p.Frame)
		}
	}
	i.deliver(now, i.Port, p)
}

func (h *edgeHost) Finish(p *packet.Packet) {
	h.finished++
	h.iface.Pool.Free(p)
}

func (h *edgeHost) Notify(now units.Time, p *packet.Packet) bool {
	n, ok := h.iface.nic.(*nic)
	return ok && n.Device.NotifySender(n.clock.ReadAt(now), p)
}

func (h *edgeHost) Admit(now units.Time, p *packet.Packet) { h.iface.Admit(now, p) }

func (h *edgeHost) Address(p *packet.Packet) bool {
	i, m := h.iface, p.Message
	if h.to != m.To {
		path, ok := i.Network.PathTo(m.To)
		if !ok {
			return false
		}
		from, ok := i.Network.SourceTo(m.To)
		if !ok {
			return false
		}
		h.to, h.from, h.path = m.To, from, path
	}
	path := h.path
	m.From = h.from
	p.Dest, p.To, p.Dst, p.Src = path.Dest, path.To, path.MAC, i.MAC
	p.SetFields()
	return true
}

func (h *edgeHost) Ends(flow int32) (from, to netip.Addr) {
	return h.iface.Network.EndsOfFlow(flow)
}

func (h *edgeHost) Trip(key packet.FlowKey, size, answer units.Bytes) cc.Path {
	if key.Flow >= 0 {
		return h.iface.Network.TripOfFlow(key.Flow, size, answer)
	}
	return h.iface.Network.TripTo(key.To, size, answer)
}

// HasEdge reports whether the interface has an edge service.
func (i *Interface) HasEdge() bool { return i.edge != nil }

// EdgeService returns the edge service of the interface; nil if it has none. Use it from code that
// the host's engine runs, or while that engine does not run.
func (i *Interface) EdgeService() edge.Service {
	if i.edge == nil {
		return nil
	}
	return i.edge.service
}

// EdgeChoice returns how the edge service was chosen; the zero Choice if the interface has none.
func (i *Interface) EdgeChoice() edge.Choice {
	if i.edge == nil {
		return edge.Choice{}
	}
	return i.edge.chosen
}

// TunnelledPackets returns the number of packets that the edge service has taken out of others, and
// the number of packets of the host that ended because their copies came out at the other end.
func (i *Interface) TunnelledPackets() (unwrapped, finished uint64) {
	if i.edge == nil {
		return 0, 0
	}
	return i.edge.unwrapped, i.edge.finished
}
