package hosts

import (
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

// AddNIC gives the station an emulated NIC. Of env, Down, Rand and Links count; the station knows
// the rest. It returns an error of nicemu.New. Call it after AddEdge, and before the run.
func (s *Station) AddNIC(settings nicemu.Settings, env nicemu.Env) (*nicemu.Device, error) {
	n := &nic{station: s, clock: s.Clock}
	env.Name, env.MAC, env.Addresses, env.LinkLocal = s.Name, s.MAC, s.Addresses, nicemu.LinkLocal(s.MAC)
	env.Line, env.Priority, env.Pool = s.Port.Link().Rate(), &s.chassis.Map.DSCP, s.Pool
	env.Now, env.Timer, env.Port = s.Engine.Now, s.Engine.NewTimer(n), s.feedBy(n)
	env.Trip = s.Network.TripTo
	env.Path = func(_, to netip.Addr) (nicemu.Path, bool) { return s.Network.PathTo(to) }
	if n.clock != nil {
		useClock(&env, n.clock, s.Engine)
	}
	device, err := nicemu.New(settings, env)
	if err != nil {
		return nil, err
	}
	n.Device = device
	s.SetNIC(n)
	if m := cc.Methods.Kind(settings.Control.Name).Feedback; m != nil {
		s.SetReceiver(m, n.ReceiveMessage)
	}
	return device, nil
}

// EmulatedNIC returns the NIC of AddNIC; nil if there is none. Use it from code that the host's
// engine runs, or while that engine does not run.
func (s *Station) EmulatedNIC() *nicemu.Device {
	if n, ok := s.nic.(*nic); ok {
		return n.Device
	}
	return nil
}
