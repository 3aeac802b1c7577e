// Package edge is the seam for services between a host's traffic and its port: limiters
// of flows, tunnels. A service gets all that the host sends, of real programs and
// modelled flows, and owns it; the port asks it for a packet when it can send one. It
// sees what arrives before the host does.
//
// Services are pure state machines: they are given the time, and reach the world through
// Host. All that is called in one comes from the goroutine of its host's engine.
package edge

import (
	"math/rand/v2"
	"net/netip"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// Services are the edge services that a lab file can name. A package adds its own in an
// init function.
var Services = registry.New[Kind]("edge service")

// Kind is an edge service as a lab file names it.
type Kind struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Presets are the names of known sets of parameters, the default first; nil where
	// there is one set only.
	Presets []string
	// Settings gives the parameters of a preset, "" without presets, for a host whose
	// link has a rate, 0 for an unlimited one.
	Settings func(preset string, line units.Rate) Settings
	// Gauges describes what Service.Gauges gives.
	Gauges []gauge.Gauge
}

// Settings are the parameters of a service: a pointer to a struct whose fields have
// yaml, json and jsonschema_description tags. A field of type cc.Choice is a rate
// control with parameters of its own, as in a NIC's cc.
type Settings interface {
	// Validate checks the parameters for a host whose link has rate line, 0 for an
	// unlimited one. The error joins a registry.RangeError for each that is wrong.
	Validate(line units.Rate) error
	// New makes the service of an interface. The settings have passed Validate, do not
	// change any more, and are shared by the interfaces of a host.
	New(env Env) Service
}

// Hearer is implemented by the settings of services that take messages about ordinary flows.
type Hearer interface {
	// Hears is the protocol of these messages, nil for none.
	Hears() *packet.MessageProtocol
}

// Chosen is an edge service with its parameters. The zero Chosen is none.
type Chosen struct {
	Name     string // of Services; "" for none
	Preset   string
	Settings Settings // nil for none; has passed Validate
}

// Gauges describes what the service shows.
func (c Chosen) Gauges() []gauge.Gauge {
	k, err := Services.Find(c.Name)
	if err != nil {
		return nil
	}
	return k.Gauges
}

// Encapsulator is implemented by the settings of services that put packets into others.
type Encapsulator interface {
	// Overhead is what a packet of a version of IP grows by: hosts' packets are so much
	// shorter than the MTU of their link.
	Overhead(ipv6 bool) units.Bytes
}

// Service is an edge service of one interface of a host.
//
// Packets have Prio, their class at the host's port. What the service has for a class it
// tells by Host.Feed, and gives when Next asks: the scheduler among the port's classes
// and the pauses of its peer hold for it as for all that the port sends.
type Service interface {
	// Send takes a packet that the host sends. It has been counted as entered.
	Send(now units.Time, p *packet.Packet)
	// Next gives the packet of a class that leaves now, which becomes the port's; nil if
	// there is none after all, and then the class is no longer fed. While it runs, Feed
	// does not call Next.
	Next(now units.Time, prio uint8) *packet.Packet
	// Wants tells whether the service takes a packet that arrived, in place of the
	// host. It is asked also by captures, and changes nothing.
	Wants(p *packet.Packet) bool
	// Receive takes a packet that it Wants.
	Receive(now units.Time, p *packet.Packet)
	// Fire is called at the time that Host.Arm gave.
	Fire(now units.Time)
	// Line tells that the link now has rate r; 0 is without limit.
	Line(now units.Time, r units.Rate)

	// Held is how many packets the service holds, and their bytes as frames.
	Held() (packets int, bytes units.Bytes)
	// Gauges appends the values of the gauges that the service's Kind describes, in
	// their order. Looking changes nothing.
	Gauges(now units.Time, values []float64) []float64

	// FlowGauges describes Flow.Gauges. It is the same for all flows, always. A service
	// that tells no flows apart embeds Flowless.
	FlowGauges() []gauge.Gauge
	// FlowCount is how many flows the service tells apart that are not Aged.
	FlowCount(now units.Time) int
	// EachFlow shows the flows that the service tells apart to f, the oldest first, until
	// f is false. It does not allocate for each. Looking changes nothing.
	EachFlow(now units.Time, f func(x *Flow) bool)
	// Follow has gone told of each flow that is forgotten, with all that it did. It is
	// called before the run, for one who follows.
	Follow(gone func(now units.Time, x *Flow))
}

// Flow is a flow that a service tells apart, at one moment. It is lent to whom it is shown.
type Flow struct {
	// Number is that of the service's flows, from 1 on, as they became known: one that was
	// forgotten and comes again has another.
	Number uint64
	// Aged means that it has had no packet for so long that it is forgotten when another flow
	// comes.
	Aged     bool
	Key      packet.FlowKey
	Priority uint8 // class of the packet that is next, or of the last one
	Packets  int   // that wait
	Bytes    units.Bytes
	Rate     units.Rate // at which it may send, on the wire; 0 is without limit
	// TxPackets and TxBytes have been handed to the port since the flow is known, Dropped
	// did not fit.
	TxPackets, TxBytes, Dropped uint64
	Gauges                      []float64 // of its rate control, by Service.FlowGauges
}

// Flowless can be embedded by services that tell no flows apart.
type Flowless struct{}

// FlowGauges has none.
func (Flowless) FlowGauges() []gauge.Gauge { return nil }

// FlowCount is 0.
func (Flowless) FlowCount(units.Time) int { return 0 }

// EachFlow shows none.
func (Flowless) EachFlow(units.Time, func(*Flow) bool) {}

// Follow has nothing to tell.
func (Flowless) Follow(func(units.Time, *Flow)) {}

// Env is the world around a service.
type Env struct {
	Host
	Name    string      // of the interface, such as "h1:eth0"
	Line    units.Rate  // of its link; 0 is without limit
	MTU     units.Bytes // of its link: of a packet with its IP header
	Classes *class.Map  // which class each packet is of
	// Limit is the most that a class of the host's port may hold; 0 is without limit. A
	// service that has no bound of its own keeps to it, and drops with
	// packet.QueueFull.
	Limit [class.Count]units.Bytes
	Rand  *rand.Rand
	Pool  *packet.Pool
	// Now is the time of the host's engine, for what programs call.
	Now func() units.Time
}

// Host is the interface of a host that a service is at.
type Host interface {
	Port

	// Arm has Service.Fire called at a time, in place of the one before. Disarm ends that:
	// a service with nothing to do has no timer, or a run would never end.
	Arm(at units.Time)
	Disarm()

	// Pass lets a packet into the port's own queue of its class, by the service: what must
	// not wait.
	Pass(now units.Time, p *packet.Packet)
	// Drop ends a packet, and counts and captures that at the port.
	Drop(now units.Time, p *packet.Packet, why packet.Fate)
	// Deliver gives a packet to its receiver at the host, as if it had arrived like this.
	Deliver(now units.Time, p *packet.Packet)
	// Consume ends a packet that came and was for the service.
	Consume(now units.Time, p *packet.Packet)
	// Waits tells that a packet begins to wait in the service, and Leaves that it no longer
	// does. The sender of a real host's packets is kept from sending more of what
	// came as this one while too much waits. A service that rather drops need not tell.
	Waits(now units.Time, p *packet.Packet)
	Leaves(now units.Time, p *packet.Packet)

	// Admit counts a packet of the service's own as one that the host sends, and gives it
	// its class and identity; the service then gives it to the port or to Pass.
	Admit(now units.Time, p *packet.Packet)
	// Address fills in the rest of a packet with a Message that has Message.To and its
	// body: the other addresses and fields (packet.Packet.Seal). It is false if nobody is
	// known to have the address.
	Address(p *packet.Packet) bool
	// Ends gives the addresses of a modelled flow, by packet.Packet.Flow, whose packets
	// have none.
	Ends(flow int32) (from, to netip.Addr)
	// Peer finds the interface that has an address, if it has the same edge service. It is
	// false for others, for groups and for addresses that nobody has.
	Peer(a netip.Addr) (Peer, bool)
	// Unwrap gives a packet that came inside another one, which is Consumed, to its receiver
	// at the host. A fate that is a drop ends it instead, and is counted at the port.
	Unwrap(now units.Time, p *packet.Packet, fate packet.Fate)
	// Finish ends a packet of the host whose copy has come out of a tunnel.
	Finish(p *packet.Packet)
	// Notify tells the queue pair of the host's NIC that has sent a packet to slow down, as a
	// CNP does. It is false if there is none, or it has no rate control.
	Notify(now units.Time, p *packet.Packet) bool
	// Trip is the way to where a flow goes and back, for a packet and its answer of these
	// sizes on the wire, in a fabric that carries nothing else; the zero cc.Path if there
	// is none.
	Trip(key packet.FlowKey, packet, answer units.Bytes) cc.Path
}

// Peer is an interface of another host that has the same service.
type Peer struct {
	Address netip.Addr // by which it names itself: its first of the version of IP
	Line    units.Rate // of its link as the run begins; 0 is without limit
}

// Port is what is fed.
type Port interface {
	// Feed tells that there is a packet of a class to send, of size bytes as a frame; 0
	// is that there is none. It may ask for the packet at once.
	Feed(now units.Time, prio uint8, size units.Bytes)
}

// Taker is implemented by services that programs use directly: packets of a protocol of the
// service's own that are for the host, such as those that come out of its tunnels, are given
// to it, and not to the host's device.
type Taker interface {
	// Takes is that protocol.
	Takes() *packet.MessageProtocol
	// Take is given a packet, and owns it. It may be Trimmed, or Returned.
	Take(now units.Time, p *packet.Packet)
}

// TakesNIC is implemented by services through which the packets of the host's NIC go as
// well. Those of others pass by: service and NIC take turns (Outlet).
type TakesNIC interface {
	// NIC is given the NIC, which it asks for packets as a port does, and gives the port
	// that the NIC is to feed. What the NIC gives has been counted as entered. It is called
	// before the run.
	NIC(f Feeder) Port
}
