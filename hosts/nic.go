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

// nic joins an emulated NIC to an interface: it uses a timer of the engine, and its
// packets enter and leave the network at the interface. The times of the NIC are those that the
// host's clock shows; those of the network are emulated.
type nic struct {
	*nicemu.Device
	iface *Interface
	clock *nodeclock.Clock // nil if it is exact
}

// Next returns a packet for the port. The packet enters the network as it leaves the port.
func (n *nic) Next(now units.Time, prio uint8) *packet.Packet {
	p := n.Device.Next(n.clock.ReadAt(now), prio)
	if p != nil {
		n.iface.Admit(now, p)
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

// AddNIC gives the interface an emulated NIC. Of env, Down, Rand and Links count; the interface knows
// the rest. It returns an error of nicemu.New. Call it after AddEdge, and before the run.
func (i *Interface) AddNIC(settings nicemu.Settings, env nicemu.Env) (*nicemu.Device, error) {
	n := &nic{iface: i, clock: i.Clock}
	env.Name, env.MAC, env.Addresses, env.LinkLocal = i.Name, i.MAC, i.Addresses, nicemu.LinkLocal(i.MAC)
	env.Line, env.Priority, env.Pool = i.Port.Link().Rate(), &i.chassis.Map.DSCP, i.Pool
	env.Now, env.Timer, env.Port = i.Engine.Now, i.Engine.NewTimer(n), i.feedBy(n)
	env.Trip = i.Network.TripTo
	env.Path = func(_, to netip.Addr) (nicemu.Path, bool) { return i.Network.PathTo(to) }
	if n.clock != nil {
		useClock(&env, n.clock, i.Engine)
	}
	device, err := nicemu.New(settings, env)
	if err != nil {
		return nil, err
	}
	n.Device = device
	i.SetNIC(n)
	if m := cc.Methods.Kind(settings.Control.Name).Feedback; m != nil {
		i.SetReceiver(m, n.ReceiveMessage)
	}
	return device, nil
}

// EmulatedNIC returns the NIC of AddNIC; nil if there is none. Use it from code that the host's
// engine runs, or while that engine does not run.
func (i *Interface) EmulatedNIC() *nicemu.Device {
	if n, ok := i.nic.(*nic); ok {
		return n.Device
	}
	return nil
}
