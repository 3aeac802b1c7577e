package hosts

import (
	"net/netip"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// Device receives the packets for a real host.
type Device interface {
	// DeliverPacket hands a packet to the host, and owns it from then on.
	DeliverPacket(now units.Time, p *packet.Packet)
}

// TrainDevice is a Device that takes trains too.
type TrainDevice interface {
	Device
	// DeliverTrain hands a train of packets to the host, and owns it from then on.
	DeliverTrain(now units.Time, p *packet.Packet)
}

// NIC receives the RoCEv2 packets that arrive at an interface.
type NIC interface {
	// ReceivePacket takes a packet, and owns it. A packet of another NIC has a RoCE
	// and no bytes; one of a real program or guest has a whole Frame instead. It
	// may be Trimmed, or Returned to its sender. If it was sent to all, it may
	// have any address.
	ReceivePacket(now units.Time, p *packet.Packet)
}

// maxSupers is how many super-packets may be pieces in queues and on links: 64
// MB of them. Beyond that, pieces get their own bytes, so that a long queue in
// which each packet is from another super-packet takes the memory of its
// packets and not 64 KB for each.
const maxSupers = 1000

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

// Attach sets the device of a real host.
func (i *Interface) Attach(d Device) {
	i.device = d
	i.trains, _ = d.(TrainDevice)
}

// SetNIC gives the interface a NIC. The NIC then receives RoCEv2 instead of the
// device: packets of NICs, and packets to UDP port 4791 that are not fragments.
// It sends through the interface's port, which it feeds (port.Feeder) with
// packets that Admit has seen. Call SetNIC before the run.
func (i *Interface) SetNIC(n NIC) { i.nic = n }

// Taker takes a packet with a Message that arrived at an interface, and owns it. The
// packet may be Trimmed, or Returned to its sender.
type Taker func(now units.Time, p *packet.Packet)

// SetChassis sets what the ports of a host with traffic classes share. Call it before the run.
func (i *Interface) SetChassis(c *port.Chassis) { i.chassis = c }

// SetReceiver makes t receive the packets of a protocol that arrive at the interface, instead of
// the host's device. Call it before the run.
func (i *Interface) SetReceiver(m *packet.MessageProtocol, t Taker) {
	if i.takers == nil {
		i.takers = map[*packet.MessageProtocol]Taker{}
	}
	i.takers[m] = t
}

// ReceiverOf returns what SetReceiver has set; nil if there is nothing.
func (i *Interface) ReceiverOf(m *packet.MessageProtocol) Taker { return i.takers[m] }

// PriorityOf returns the class of packets with a DSCP at the interface's port; 0 without classes.
func (i *Interface) PriorityOf(dscp uint8) uint8 {
	if i.chassis == nil {
		return 0
	}
	return i.chassis.Map.DSCP[dscp]
}

// Enter takes a parsed frame that a real host sent.
func (i *Interface) Enter(now units.Time, p *packet.Packet) {
	p.Dest = i.Directory.Resolve(p.Frame, p, i.ID, i.MAC)
	i.sendPacket(now, p)
}

// sendPacket passes a packet that the host sends to its edge service or, without one, to its
// port.
func (i *Interface) sendPacket(now units.Time, p *packet.Packet) {
	if i.edge != nil {
		i.edge.enterService(now, p)
		return
	}
	i.Admit(now, p)
	i.Port.Send(now, p)
}

// QueueLength returns how much waits at the interface to leave: in its port's queues and in
// its edge service.
func (i *Interface) QueueLength(now units.Time) (packets int, bytes units.Bytes) {
	packets, bytes = i.Port.QueueLength(now)
	if i.edge != nil {
		n, more := i.edge.service.HeldPackets()
		packets, bytes = packets+n, bytes+more
	}
	return packets, bytes
}

// EnterSuper splits a super-packet that a real host sent. head has the fields
// that its pieces share. If the port lets them pass at once, all but the last are a train.
func (i *Interface) EnterSuper(now units.Time, super *packet.Super, head *packet.Packet) {
	head.Dest = i.Directory.Resolve(super.Data, head, i.ID, i.MAC)
	split := gso.NewSplitter(i.Pool, super, head)
	if i.edge == nil && i.chassis == nil && i.Pool.LiveSupers() <= maxSupers {
		head.Size = units.Bytes(super.Payload) + units.Bytes(super.Segment)
		if i.Port.PassesAtOnce(now, head) {
			if p := split.CutTrain(); p != nil {
				i.Admit(now, p)
				i.Port.Send(now, p)
			}
		}
	}
	for p := split.Next(); p != nil; p = split.Next() {
		if i.Pool.LiveSupers() > maxSupers {
			p = gso.CopyPacket(i.Pool, p)
		}
		i.sendPacket(now, p)
	}
	i.Pool.ReleaseSuper(super)
}

// Malformed takes a malformed frame that a real host sent, and discards it.
func (i *Interface) Malformed(now units.Time, p *packet.Packet) {
	p.Size = units.Bytes(len(p.Frame))
	i.Admit(now, p)
	i.Port.DiscardPacket(now, p, packet.Malformed)
}

// Refused counts a packet, or all of a train, as dropped that was delivered to the device but that
// the host's kernel did not take. The caller keeps the packet.
func (i *Interface) Refused(now units.Time, p *packet.Packet) {
	n := uint64(p.PacketCount())
	i.Delivered -= n
	i.DeliveredBytes -= n * uint64(p.Size)
	i.Port.CountRefused(now, p)
}

// OriginatePacket takes a packet of a modelled flow.
func (i *Interface) OriginatePacket(now units.Time, p *packet.Packet) { i.sendPacket(now, p) }

// Admit counts a packet or a train as entered and sets its identity, its origin, its class
// and the time. It does not send it: the code that feeds the interface's port
// does.
func (i *Interface) Admit(now units.Time, p *packet.Packet) {
	n := uint64(p.PacketCount())
	p.ID = uint64(i.ID)<<40 | (i.Entered + 1)
	p.Origin, p.Created = i.ID, now
	if i.chassis != nil {
		p.In = buffer.Own
		i.chassis.ClassifyPacket(p)
	}
	i.Entered += n
	i.EnteredBytes += n * uint64(p.Size)
}

// InputPacket passes a packet that arrived to the edge service, if that wants it; otherwise
// it delivers the packet.
func (i *Interface) InputPacket(now units.Time, in *port.Port, p *packet.Packet) {
	if p.Kind == packet.Train {
		i.inputTrain(now, in, p)
		return
	}
	if i.edge != nil && i.edge.service.WantsPacket(p) {
		i.edge.service.ReceivePacket(now, p)
		return
	}
	i.deliver(now, in, p)
}

// inputTrain delivers a train whole if the device takes it.
func (i *Interface) inputTrain(now units.Time, in *port.Port, p *packet.Packet) {
	if i.trains == nil || i.edge != nil || i.takes(p) {
		i.Pool.SplitTrain(p, func(q *packet.Packet) { i.InputPacket(now, in, q) })
		return
	}
	i.countIn(p)
	i.trains.DeliverTrain(now, p)
}

// deliver passes a packet to its receiver: a modelled flow's record, a Taker,
// the host's NIC or its device.
func (i *Interface) deliver(now units.Time, in *port.Port, p *packet.Packet) {
	if p.Kind == packet.Modelled {
		i.countIn(p)
		i.Modelled(now, p)
		return
	}
	if p.Kind == packet.Protocol {
		if t := i.takers[p.Message.Protocol]; t != nil {
			i.countIn(p)
			t(now, p)
			return
		}
	}
	switch nic := i.takes(p); {
	case !nic && i.device == nil:
		in.DiscardPacket(now, p, packet.NoReceiver)
	case nic:
		i.countIn(p)
		if p.Piece.Of != nil || p.Sum != 0 {
			p = i.Pool.MakeBytes(p)
		}
		i.nic.ReceivePacket(now, p)
	default:
		i.countIn(p)
		if p.Kind != packet.Real { // nothing else in the host takes it, so its kernel sees it
			p = i.Pool.MakeBytes(p)
		}
		i.device.DeliverPacket(now, p)
	}
}

func (i *Interface) countIn(p *packet.Packet) {
	n := uint64(p.PacketCount())
	i.Delivered += n
	i.DeliveredBytes += n * uint64(p.Size)
}

// takes reports whether a packet that belongs to no modelled flow is for the
// interface's NIC. The ports of a fragment are not known, not even of the first.
func (i *Interface) takes(p *packet.Packet) bool {
	return i.nic != nil && (p.Kind == packet.NIC || p.Proto == wire.ProtoUDP && (p.DstPort == roce.Port || p.DstPort == telemetry.Port))
}

// PeekFate returns Fine if anything at the interface receives p, else NoReceiver.
// A refusal by the device shows only when it happens.
func (i *Interface) PeekFate(_ units.Time, _ *port.Port, p *packet.Packet) packet.Fate {
	taken := p.Kind == packet.Modelled || i.edge != nil && i.edge.service.WantsPacket(p) || i.device != nil || i.takes(p) || p.Kind == packet.Protocol && i.takers[p.Message.Protocol] != nil
	if !taken {
		return packet.NoReceiver
	}
	return packet.Fine
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
