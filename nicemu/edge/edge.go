// Package edge is the interface for services between a host's traffic and its port: limiters of
// flows, tunnels. A service gets and owns all packets that the host sends, from real programs and
// modelled flows; the port asks it for a packet when it can send one. It sees arriving packets
// before the host does.
//
// Services are pure state machines: the caller passes the time, and they reach the outside through
// Host. All calls to a service come from the goroutine of its host's engine.
package edge

import (
	"math/rand/v2"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// Services are the edge services that a lab file can name. Packages register theirs in an init
// function.
var Services = registry.New[Kind]("edge service")

// Kind describes an edge service that a lab file can name.
type Kind struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Presets are the names of known sets of parameters, the default first; nil if there is only
	// one set.
	Presets []string
	// Settings returns the parameters of a preset, "" without presets, for a host whose link has
	// rate line, 0 for an unlimited one.
	Settings func(preset string, line units.Rate) Settings
	// Gauges describes the values of Service.AppendGauges.
	Gauges []gauge.Gauge
	// FlowGauges describes the values of the service's flows, apart from those of rate controls:
	// what Service.FlowGauges returns has no others.
	FlowGauges []gauge.Gauge
}

// Settings are the parameters of a service: a pointer to a struct whose fields have yaml, json and
// jsonschema_description tags. A field of type cc.Choice is a rate control with its own parameters,
// as in a NIC's cc.
type Settings interface {
	// Validate checks the parameters for a host whose link has rate line, 0 for an
	// unlimited one. The error joins a registry.RangeError for each that is wrong.
	Validate(line units.Rate) error
	// New makes the service of an interface. The settings have passed Validate, no longer change,
	// and are shared by the interfaces of a host.
	New(env Env) Service
}

// MessageReceiver is implemented by the settings of services that take messages about ordinary flows.
type MessageReceiver interface {
	// MessageProtocol returns the protocol of these messages, nil if there is none.
	MessageProtocol() *packet.MessageProtocol
}

// Choice is a chosen edge service with its parameters. The zero Choice means no service.
type Choice = registry.Choice[Settings]

// Encapsulator is implemented by the settings of services that put packets into others.
type Encapsulator interface {
	// Overhead returns the growth of a packet of an IP version: hosts' packets must be that much
	// shorter than the MTU of their link.
	Overhead(ipv6 bool) units.Bytes
}

// Service is an edge service of one interface of a host.
//
// Packets have Prio, their class at the host's port. The service announces the packets of a class
// with Host.Feed, and returns them when Next asks: the scheduler among the port's classes and the
// pauses of its peer apply to them as to all that the port sends.
type Service interface {
	// SendPacket takes a packet that the host sends. It has already been counted.
	SendPacket(now units.Time, p *packet.Packet)
	// Next returns the packet of a class that leaves now, which then belongs to the port; nil if
	// there is none after all, and then the class is no longer fed. While Next runs, AnnouncePacket does not
	// call it.
	Next(now units.Time, prio uint8) *packet.Packet
	// WantsPacket reports whether the service takes a packet that arrived, instead of the host. Captures
	// call it too, and it changes nothing.
	WantsPacket(p *packet.Packet) bool
	// ReceivePacket takes a packet that it WantsPacket.
	ReceivePacket(now units.Time, p *packet.Packet)
	// Fire is called at the time that Host.Arm gave.
	Fire(now units.Time)
	// SetLineRate reports that the link now has rate r; 0 means no limit.
	SetLineRate(now units.Time, r units.Rate)

	// HeldPackets returns the number of packets that the service holds, and their bytes as frames.
	HeldPackets() (packets int, bytes units.Bytes)
	// AppendGauges appends the values of the gauges that the service's Kind describes, in their order.
	// The call changes nothing.
	AppendGauges(now units.Time, values []float64) []float64

	// FlowGauges describes Flow.Gauges. It is the same for all flows, always. A service that does
	// not distinguish flows embeds Flowless.
	FlowGauges() []gauge.Gauge
	// FlowCount returns the number of flows that the service distinguishes and that are not Aged.
	FlowCount(now units.Time) int
	// EachFlow calls f with the flows that the service distinguishes, the oldest first, until f
	// returns false. It does not allocate for each. The call changes nothing.
	EachFlow(now units.Time, f func(x *Flow) bool)
	// OnFlowEnd sets gone to be called for each flow that is removed, with all its counters. Call it
	// before the run.
	OnFlowEnd(onEnd func(now units.Time, x *Flow))
}

// Flow is the state of a flow of a service at one moment. It is valid only during the call.
type Flow struct {
	// Number counts the service's flows from 1 on, in the order of their first packet: a flow that
	// was removed and returns gets a new number.
	Number uint64
	// Aged means that it has had no packet for so long that it is removed when another flow
	// arrives.
	Aged     bool
	Key      packet.FlowKey
	Priority uint8 // class of the next packet, or of the last one
	Packets  int   // waiting
	Bytes    units.Bytes
	Rate     units.Rate // at which it may send, on the wire; 0 means no limit
	// TxPackets and TxBytes have been handed to the port since the flow's first packet, Dropped did
	// not fit.
	TxPackets, TxBytes, Dropped uint64
	Gauges                      []float64 // of its rate control, see Service.FlowGauges
}

// Flowless can be embedded by services that do not distinguish flows.
type Flowless struct{}

// FlowGauges returns nil.
func (Flowless) FlowGauges() []gauge.Gauge { return nil }

// FlowCount returns 0.
func (Flowless) FlowCount(units.Time) int { return 0 }

// EachFlow calls f for no flow.
func (Flowless) EachFlow(units.Time, func(*Flow) bool) {}

// OnFlowEnd does nothing.
func (Flowless) OnFlowEnd(func(units.Time, *Flow)) {}

// Env is the world around a service.
type Env struct {
	Host
	Name    string      // of the interface, for example "h1:eth0"
	Line    units.Rate  // of its link; 0 means no limit
	MTU     units.Bytes // of its link: of a packet with its IP header
	Classes *class.Map  // maps packets to classes
	// Limit is the most that a class of the host's port may hold; 0 means no limit. A service
	// without a bound of its own respects it, and drops with packet.QueueFull.
	Limit [class.Count]units.Bytes
	Rand  *rand.Rand
	Pool  *packet.Pool
	// Now returns the time of the host's engine, for calls from programs.
	Now func() units.Time
}

// Host is the interface of a host that a service is attached to.
type Host interface {
	Port

	// Arm schedules Service.Fire for a time, replacing the previous one. Disarm cancels it: a
	// service without work has no timer, or a run would never end.
	Arm(at units.Time)
	Disarm()

	// Pass puts a packet past the service into the port's own queue of its class, for packets that
	// must not wait.
	Pass(now units.Time, p *packet.Packet)
	// Drop ends a packet, and counts and captures the drop at the port.
	Drop(now units.Time, p *packet.Packet, why packet.Fate)
	// DeliverPacket delivers a packet to its receiver at the host, as if it had arrived like this.
	DeliverPacket(now units.Time, p *packet.Packet)
	// Consume ends a received packet that was for the service.
	Consume(now units.Time, p *packet.Packet)
	// Waits reports that a packet starts to wait in the service, and Leaves that it no longer
	// waits. While too much waits, the sender of a real host's packets is kept from sending more
	// where this packet came from. A service that drops instead need not call them.
	Waits(now units.Time, p *packet.Packet)
	Leaves(now units.Time, p *packet.Packet)

	// Admit counts a packet generated by the service as sent by the host, and assigns its class and
	// identity; the service then gives it to the port or to Pass.
	Admit(now units.Time, p *packet.Packet)
	// Address completes a packet with a Message that has Message.To and its body: the other
	// addresses and fields (packet.Packet.Seal). It returns false if no known host has the address.
	Address(p *packet.Packet) bool
	// Ends returns the addresses of a modelled flow, by packet.Packet.Flow, whose packets have
	// none.
	Ends(flow int32) (from, to netip.Addr)
	// Peer finds the interface that has an address, if it has the same edge service. It returns
	// false for others, for groups and for unused addresses.
	Peer(a netip.Addr) (Peer, bool)
	// Unwrap delivers a packet that came inside another one, which is Consumed, to its receiver at
	// the host. If fate is a drop, the packet ends instead, and the drop is counted at the port.
	Unwrap(now units.Time, p *packet.Packet, fate packet.Fate)
	// Finish ends a packet of the host whose copy has come out of a tunnel.
	Finish(p *packet.Packet)
	// Notify tells the queue pair of the host's NIC that sent a packet to slow down, as a CNP does.
	// It returns false if there is none, or it has no rate control.
	Notify(now units.Time, p *packet.Packet) bool
	// Trip returns the path of a flow to its destination and back, for a packet and its answer of
	// these sizes on the wire, in a fabric without other traffic; the zero cc.Path if there is
	// none.
	Trip(key packet.FlowKey, packet, answer units.Bytes) cc.Path
}

// Peer is an interface of another host that has the same service.
type Peer struct {
	Address netip.Addr // its own name for itself: its first of the IP version
	Line    units.Rate // of its link when the run begins; 0 means no limit
}

// Port is a port that takes packets.
type Port interface {
	// AnnouncePacket announces a packet of a class to send, of size bytes as a frame; 0 means there is none.
	// It may ask for the packet at once.
	AnnouncePacket(now units.Time, prio uint8, size units.Bytes)
}

// Taker is implemented by services that programs use directly: it gets packets of the service's own
// protocol that are for the host, such as those from its tunnels, instead of the host's device.
type Taker interface {
	// TakenProtocol returns that protocol.
	TakenProtocol() *packet.MessageProtocol
	// TakePacket handles a packet, and owns it. It may be Trimmed, or Returned.
	TakePacket(now units.Time, p *packet.Packet)
}

// TakesNIC is implemented by services that also carry the packets of the host's NIC. Otherwise
// these bypass the service: service and NIC take turns (Outlet).
type TakesNIC interface {
	// NICPort takes the NIC, which it asks for packets as a port does, and returns the port that the
	// NIC must feed. Packets from the NIC have already been counted. It is called before the run.
	NICPort(f Feeder) Port
}
