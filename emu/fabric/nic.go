package fabric

import (
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
)

// nic joins an emulated NIC to a station: it uses a timer of the engine, and its
// packets enter and leave the fabric at the station. The times of the NIC are those that the
// host's clock shows; those of the fabric are emulated.
type nic struct {
	*nicemu.Device
	station *Station
	clock   *nodeclock.Clock // nil if it is exact
}

// Next returns a packet for the port. The packet enters the fabric as it leaves the port.
func (n *nic) Next(now units.Time, prio uint8) *packet.Packet {
	p := n.Device.Next(n.clock.ReadAt(now), prio)
	if p != nil {
		n.station.Admit(now, p)
	}
	return p
}

// Fire does the work of the NIC that is due.
func (n *nic) Fire(now units.Time) { n.Device.Fire(n.clock.ReadAt(now)) }

// ReceivePacket passes a packet to the NIC.
func (n *nic) ReceivePacket(now units.Time, p *packet.Packet) {
	n.Device.ReceivePacket(n.clock.ReadAt(now), p)
}

// ReceiveMessage passes a message for a rate control to the NIC.
func (n *nic) ReceiveMessage(now units.Time, p *packet.Packet) {
	n.Device.ReceiveMessage(n.clock.ReadAt(now), p)
}

// clockedTimer is the timer of a NIC whose times are those that a clock shows.
type clockedTimer struct {
	sim.Timer
	clock *nodeclock.Clock
}

// Arm sets the timer.
func (t clockedTimer) Arm(at units.Time) { t.Timer.Arm(t.clock.ReachedAt(at)) }

// clockedPort is the port of such a NIC.
type clockedPort struct {
	nicemu.Port
	engine *sim.Engine
}

// AnnouncePacket announces a packet to the port.
func (p clockedPort) AnnouncePacket(_ units.Time, prio uint8, size units.Bytes) {
	p.Port.AnnouncePacket(p.engine.Now(), prio, size)
}

// useClock makes the times of a NIC's environment those that a clock shows.
func useClock(env *nicemu.Env, c *nodeclock.Clock, engine *sim.Engine) {
	env.Now = func() units.Time { return c.ReadAt(engine.Now()) }
	env.Timer = clockedTimer{env.Timer.(sim.Timer), c}
	env.Port = clockedPort{env.Port, engine}
}

// addNIC adds the NIC of a host's interface, if it has one.
func (f *Fabric) addNIC(s *Station) error {
	node := &f.Plan.Nodes[s.Node]
	if node.NIC == nil || s.Port.Link() == nil {
		return nil
	}
	shard, engine := f.ShardOf(s.Node), f.engineOf(s.Node)
	var addresses []netip.Addr
	for _, a := range node.Ports[s.Index].Addresses {
		addresses = append(addresses, a.Addr())
	}
	n := &nic{station: s, clock: s.clock()}
	timer := engine.NewTimer(n)
	env := nicemu.Env{
		Name: f.Plan.PortName(s.Node, s.Index), MAC: s.MAC, Addresses: addresses, LinkLocal: nicemu.LinkLocal(s.MAC), Line: s.Port.Link().Rate(),
		Down:     shard.down[node.Ports[s.Index].Link] != 0,
		Priority: &s.chassis.Map.DSCP,
		Pool:     shard.Pool, Now: engine.Now, Timer: timer, Port: s.feedBy(n), Links: &shard.links,
		Trip: s.tripTo,
		Rand: sim.NewRand(f.Plan.Seed, "cc "+f.Plan.PortName(s.Node, s.Index)),
		Path: func(_, to netip.Addr) (nicemu.Path, bool) { return f.pathTo(s, to) },
	}
	if n.clock != nil {
		useClock(&env, n.clock, engine)
	}
	device, err := nicemu.New(*node.NIC, env)
	if err != nil {
		return fmt.Errorf("host %s: %w", node.Name, err)
	}
	n.Device = device
	s.SetNIC(n)
	if m := cc.Methods.Kind(node.NIC.Control.Name).Feedback; m != nil {
		s.SetReceiver(m, n.ReceiveMessage)
	}
	f.nics = append(f.nics, n)
	return nil
}

// pathTo returns where a station's packets to an address go.
func (f *Fabric) pathTo(s *Station, to netip.Addr) (nicemu.Path, bool) {
	if e, ok := f.findNear(s, to); ok {
		return nicemu.Path{Dest: f.topology.Endpoint(e), MAC: f.topology.MAC(e)}, true
	}
	if to.Is6() && to.IsLinkLocalUnicast() {
		return nicemu.Path{}, false
	}
	hop, ok := f.Neighbours(s).FirstHop(to)
	return nicemu.Path(hop), ok
}

// tripTo returns the path from a station to an address and back, as a rate control
// needs it when a flow begins.
func (s *Station) tripTo(to netip.Addr, size, ack units.Bytes) cc.Path {
	f := s.fabric
	end, ok := f.findPort(s, to)
	if !ok {
		return cc.Path{}
	}
	return s.trip(f.stations[end.Node][end.Port], size, ack)
}

// trip returns the path to another station and back; the zero Path if there is none.
func (s *Station) trip(peer *Station, size, ack units.Bytes) cc.Path {
	if peer == nil {
		return cc.Path{}
	}
	w, known := s.paths[peer.ID]
	if !known {
		if s.paths == nil {
			s.paths = map[packet.Endpoint]linkPath{}
		}
		w = s.fabric.pathBetween(s, peer)
		s.paths[peer.ID] = w
	}
	if w == nil {
		return cc.Path{}
	}
	return cc.Path{RTT: w.carries(size, 0) + w.carries(ack, 0), Bottleneck: w.slowest(), Hops: len(w)}
}

// Device returns the NIC of a host's interface, nil if it has none. Use it from
// code that the host's engine runs, or while that engine does not run.
func (f *Fabric) Device(node, index int) *nicemu.Device {
	if s := f.stations[node][index]; s != nil {
		if n, ok := s.nic.(*nic); ok {
			return n.Device
		}
	}
	return nil
}

// DeviceOf returns the first NIC of a host. The rules of Device apply.
func (f *Fabric) DeviceOf(host string) (*nicemu.Device, error) {
	n, err := f.firstNIC(host)
	if err != nil {
		return nil, err
	}
	return n.Device, nil
}

func (f *Fabric) firstNIC(host string) (*nic, error) {
	for n := range f.Plan.Nodes {
		if f.Plan.Nodes[n].Name != host {
			continue
		}
		for _, s := range f.stations[n] {
			if s == nil {
				continue
			}
			if x, ok := s.nic.(*nic); ok {
				return x, nil
			}
		}
		return nil, fmt.Errorf("%s has no NIC: write nic: roce for it in the lab file", host)
	}
	return nil, fmt.Errorf("there is no host %s", host)
}

// EngineOf returns the engine that runs a NIC, for timers and processes that use it.
func (f *Fabric) EngineOf(d *nicemu.Device) *sim.Engine {
	for _, n := range f.nics {
		if n.Device == d {
			return n.engine()
		}
	}
	return nil
}

func (n *nic) engine() *sim.Engine { return n.station.fabric.engineOf(n.station.Node) }

// Go starts a program on a host: a process of the engine that runs the host, with its
// first NIC. In messages the process has the host's name. Until it ends, the state of
// the host's NICs belongs to it: with several shards, programs on other hosts may run
// at the same time. Like Device, call Go from code that the host's engine runs, or
// while that engine does not run.
func (f *Fabric) Go(host string, program func(p *sim.Process, d *nicemu.Device)) (*sim.Process, error) {
	n, err := f.firstNIC(host)
	if err != nil {
		return nil, err
	}
	return n.engine().Go(host, func(p *sim.Process) { program(p, n.Device) }), nil
}

// StopProcesses stops all processes that have not ended. Call it before dropping a fabric that
// has run in virtual time with waiting processes: their goroutines would stay for ever. The
// driver of the wall clock calls it itself.
func (f *Fabric) StopProcesses() {
	for _, s := range f.Shards {
		for _, p := range s.Processes {
			p.Engine.StopProcesses()
		}
	}
}

// tellNICs tells a shard's NICs at the ends of a link whether it is up: it is not if one of its
// directions is down, since Ethernet reports a fault to the other end.
func (f *Fabric) tellNICs(s *Shard, link int) {
	for _, end := range f.Plan.Links[link].Ends {
		if f.ShardOf(end.Node) != s {
			continue
		}
		if d := f.Device(end.Node, end.Port); d != nil {
			d.SetLink(s.down[link] == 0)
		}
	}
}
