package hosts

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// Directory finds the destinations of frames.
type Directory interface {
	// Resolve returns the destination of a frame that has been parsed into p, and sets p.To. from is
	// the interface that sends the frame, and own its Ethernet address.
	Resolve(frame []byte, p *packet.Packet, from packet.Endpoint, own wire.MAC) packet.Endpoint
}

// Network is the network around one interface: it answers what the NIC and the edge service of the
// interface need to know. The engine of the interface calls it.
type Network interface {
	// PathTo returns where packets to an address go first; false if no host has the address.
	PathTo(to netip.Addr) (nicemu.Path, bool)
	// SourceTo returns the address that the host has as the source of packets to another; false if
	// it has none of that IP version.
	SourceTo(to netip.Addr) (netip.Addr, bool)
	// InterfaceWith returns the interface that packets to an address are for; nil if there is none.
	InterfaceWith(a netip.Addr) *Interface
	// TripTo returns the path to an address and back, for a packet and its answer of these sizes on
	// the wire, in a network without other traffic; the zero cc.Path if there is none.
	TripTo(to netip.Addr, size, answer units.Bytes) cc.Path
	// TripOfFlow is TripTo for the receiver of a modelled flow, by packet.Packet.Flow.
	TripOfFlow(flow int32, size, answer units.Bytes) cc.Path
	// EndsOfFlow returns the addresses of a modelled flow.
	EndsOfFlow(flow int32) (from, to netip.Addr)
}

// Env is the world around an interface.
type Env struct {
	ID        packet.Endpoint
	MAC       wire.MAC
	Pool      *packet.Pool
	Modelled  Taker // takes the packets of modelled flows
	Directory Directory
	Network   Network
	Engine    *sim.Engine      // of the host
	Clock     *nodeclock.Clock // of the host; nil if it is exact

	Node, Index int          // of the host and its port in the plan
	Name        string       // such as "h1:eth0"
	Addresses   []netip.Addr // in the order of the lab file
	Routed      bool         // the network has routers
}

// Interface is one network interface of a host: packets enter and leave the network there.
type Interface struct {
	Port *port.Port // set it before the run

	device Device
	trains TrainDevice // device, if it is one
	nic    NIC
	takers map[*packet.MessageProtocol]Taker

	chassis *port.Chassis // of a host with traffic classes
	edge    *edgeHost     // of a host with an edge service

	Entered, EnteredBytes     uint64
	Delivered, DeliveredBytes uint64

	Env
}

// New makes an interface without a port, a device and a NIC.
func New(e Env) *Interface { return &Interface{Env: e} }

// SetChassis sets what the ports of a host with traffic classes share. Call it before the run.
func (i *Interface) SetChassis(c *port.Chassis) { i.chassis = c }

// PriorityOf returns the class of packets with a DSCP at the interface's port; 0 without classes.
func (i *Interface) PriorityOf(dscp uint8) uint8 {
	if i.chassis == nil {
		return 0
	}
	return i.chassis.Map.DSCP[dscp]
}

// LineRate returns the rate that the host's clock makes of that of its link; 0 without a limit.
func (i *Interface) LineRate() units.Rate { return i.Clock.TrueRate(i.Port.Link().Rate()) }

// SetLineRate tells the NIC and the edge service that the link has another rate now; 0 means no
// limit.
func (i *Interface) SetLineRate(now units.Time, r units.Rate) {
	if n, ok := i.nic.(*nic); ok {
		n.SetLine(n.clock.ReadAt(now), r)
	}
	if i.edge != nil {
		i.edge.service.SetLineRate(now, i.LineRate())
	}
}
