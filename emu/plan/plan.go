// Package plan describes a lab with everything worked out, as a value: nodes, ports,
// links, classes, events, flows and transfers in a flat Plan of indices. Fabrics are
// built from it, and it is what weft draws and runs. Apart from the types, the package has
// what follows from them alone: names of ports, broadcast domains, how hosts reach
// addresses.
//
// Package resolve makes plans and validates them: what the types here promise holds because
// resolve has checked it. This package knows nothing about YAML, schemas or places in a
// file, except the lines of what can fail later.
package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/forward"
	"github.com/weftlab/weft/switches/mactable"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/traffic/workload"
)

// Plan is a lab with everything worked out: no defaults, kinds, generators or
// names are left to resolve. Nodes refer to links and links to nodes by their
// index in the plan.
type Plan struct {
	File     string // where it was read
	Name     string
	Seed     uint64
	Duration units.Time // of a run in virtual time; 0 runs until nothing is left to happen
	// Dilation is how many seconds of real time one second of the plan takes in
	// wall-clock time, 1 to 1000000. All other times in a plan are
	// emulated.
	Dilation int
	Fidelity Fidelity
	Engine   Engine
	// Reroute is how long after a link goes down or comes up the tables of all
	// switches change to leave it out or include it. units.Never keeps the
	// tables as they are at the start, over links that are up and down alike.
	Reroute units.Time

	Nodes  []Node // those of the generator, then those of the file, in their order
	Links  []Link // likewise
	Events []Event
	// QueueEvents change queues during the run, sorted by time.
	QueueEvents []QueueEvent
	Flows       []workload.Flow
	// Transfers have hosts with NICs at both ends.
	Transfers []workload.Transfer
	// Traffic are the patterns of flows, and Measure says which flows count.
	Traffic []Traffic
	Measure Measure

	Series *Series // nil if the file has none

	// Warnings are what the file may say and its author probably does not want, each with its
	// place and a correction. They change nothing.
	Warnings []string
}

// Fidelity is how late packets may be in wall-clock time.
type Fidelity struct {
	Strict bool           // a run that exceeds this fails; otherwise it is only reported
	Limit  units.Time     // of one packet's lateness, emulated; positive
	Share  units.Fraction // of packets that may exceed Limit before a strict run fails
}

// Engine is how the engine thread uses the processor in wall-clock time.
type Engine struct {
	Spin     units.Time // busy waiting before a deadline, 0 to 1 s of real time
	Realtime Realtime
	IO       IO
	Workers  int // threads that run the fabric; 0 means one in the wall clock, one per core in virtual time
}

// IO says how the devices of real hosts are read and written.
type IO uint8

// The ways to read and write devices.
const (
	IOAuto      IO = iota // io_uring where it helps and the kernel allows it
	IOUring               // the lab does not start if the kernel does not allow it
	IOReadWrite           // system calls read and write
)

// Realtime says whether the engine thread asks for SCHED_FIFO.
type Realtime uint8

// The ways to ask for real-time scheduling.
const (
	RealtimeAuto    Realtime = iota // where it is allowed
	RealtimeOff                     // never
	RealtimeRequire                 // or the lab does not start
)

// Kind is what a node is.
type Kind uint8

// The kinds of nodes.
const (
	Host Kind = iota
	Switch
)

// Attach is how a host's interface reaches programs.
type Attach uint8

// The attachments of a host.
const (
	TAP      Attach = iota // an Ethernet device in a network namespace
	TUN                    // an IP device in a network namespace
	NoDevice               // none: the host is modelled only
	Guest                  // the NIC of a virtual machine; of nodes with VM
)

// Offload says whether a host's devices carry super-packets (segmentation
// offload, IFF_VNET_HDR): what programs send comes in pieces of up to 64 KB,
// which are split into packets before the first queue, and runs of packets are
// joined again on their way to the host.
type Offload uint8

// The ways to carry packets to and from a host.
const (
	OffloadOn  Offload = iota
	OffloadOff         // one by one, in strict wire order
)

// Node is a host or a switch.
type Node struct {
	Name     string
	Kind     Kind
	Attach   Attach // hosts
	Offload  Offload
	Join     units.Time // how long a packet may wait to be joined with others, 0 to 1 ms; hosts with offload
	Ports    []Port     // in the order in which links first name them
	ECMPSeed uint64     // switches; by default made from the lab's seed and the node's name
	// Forwarding is how a switch chooses among several paths.
	Forwarding registry.Choice[forward.Settings]
	// Learning holds the settings of a plain switch's table of learned Ethernet addresses;
	// nil if it does not learn, and for any other node.
	Learning *mactable.Config
	// Static are the static routes of a switch. If several are for the same
	// station or address, the last one applies.
	Static  []StaticRoute
	Router  *Router // of a switch that forwards by IP addresses; nil for any other node
	QoS     *QoS    // nil for a node whose ports have a single plain queue each
	Sysctls []Sysctl
	Routes  []Route   // of hosts
	Exec    []Program // of hosts with devices
	Private []string  // directories private to a host
	// NIC is the settings of the RDMA NIC of each connected interface of a
	// host, whose GIDs are the interface's addresses; nil if there is none. A
	// host with a NIC has QoS.
	NIC *nicemu.Settings
	// Edge is the service in front of each connected interface of a host; the zero Chosen
	// if there is none. A host with one has QoS.
	Edge edge.Choice
	// VM is the virtual machine of a host; nil for a host in a namespace.
	VM *VM
	// Clock is how exact the node's clock is.
	Clock nodeclock.Settings
}

// EdgeOverhead returns by how much a host's packets of an IP version are shorter than the MTU
// of its link, for what its edge service adds in front of them.
func (n *Node) EdgeOverhead(ipv6 bool) units.Bytes {
	if e, ok := n.Edge.Settings.(edge.Encapsulator); ok {
		return e.Overhead(ipv6)
	}
	return 0
}

// Encapsulates reports whether the host's edge service encapsulates packets.
func (n *Node) Encapsulates() bool {
	_, ok := n.Edge.Settings.(edge.Encapsulator)
	return ok
}

// FixedMTU is the message that a link's MTU cannot be changed, with the service and the
// interface.
const FixedMTU = "%s at %s keeps the mtu that its link has when the run begins: both ends of a tunnel assume packets of that size"

// DeviceMTU returns the MTU of a host's interface on a link with the given MTU.
func (n *Node) DeviceMTU(port int, link units.Bytes) units.Bytes {
	return link - n.EdgeOverhead(HasFamily(n.Ports[port].Addresses, true))
}

// QoS is what a node has beyond plain ports. The ports of a node with QoS
// have Classes, all with the same priorities.
type QoS struct {
	Map class.Map // maps packets to priorities; every port has a class for each
	// Buffer is the memory that all ports of a switch share, including reserved
	// memory: more than the sum of Reserve, Ingress.Reserve and Headroom of its
	// ports. 0 means as much as they want; then nothing has an alpha or a
	// reserve.
	Buffer     units.Bytes
	Pause      *pfc.Config // global PAUSE of a switch instead of PFC by class; nil if there is none
	CutThrough bool        // a switch forwards a packet as soon as its header has arrived
}

// Sysctl is one kernel setting of a host, such as net.ipv4.tcp_ecn. The
// settings of a node are sorted by key, and each key begins with "net.".
type Sysctl struct{ Key, Value string }

// Route is one static route of a host. Via is on the link of one of the
// host's interfaces.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Router makes a switch a router. Each of its ports bounds a broadcast domain.
// A port in a domain with hosts has addresses like theirs; others may have
// none.
type Router struct {
	Addresses []netip.Addr // of the router itself; each unique in the plan
}

// StaticRoute is one static route of a switch. In a plain switch it applies to
// all packets to the stations, of both IP versions and of none. In a router it
// applies to the prefixes or, without any, to the addresses of the stations.
type StaticRoute struct {
	To       string         // as in the file
	Stations []End          // interfaces of hosts; at least one, except where a router has Prefixes
	Prefixes []netip.Prefix // masked; of routers, nil if the file names a host
	Via      []NextHop      // at least one
}

// NextHop is a port of a switch through which a static route leads, and its weight
// among the ports of the route.
type NextHop struct{ Port, Weight int } // Weight is 1 to 1000

// Port is an interface of a host or a port of a switch.
type Port struct {
	Name      string         // "eth0", "1", "spine1"
	Link      int            // index in Plan.Links, -1 for the one interface of a host without links
	End       int            // 0 or 1: which end of the link
	MAC       [6]byte        // hosts and routers; unicast, unique in the plan
	Addresses []netip.Prefix // hosts and routers; each unique in the plan; a router's port may have none
	Queue     Queue          // of packets waiting to leave, of a plain port
	// Classes, by rising priority, are the queues of a port of a node with
	// QoS; Queue is not used then.
	Classes []class.Class
	// Headroom is how much of the buffer each lossless class of a switch's port
	// may take after it has asked for a pause, by priority; with global PAUSE
	// the first is for the whole port. It is reserved for the port, and also
	// limits where there is no buffer.
	Headroom [class.Count]units.Bytes
	// Obeys says which pauses of its peer the port obeys: at a switch for the classes with
	// PFC, or for all with global PAUSE; at a host what the switch at the other end has,
	// except for classes that the file excludes.
	Obeys pfc.Obeyed
}

// SharedBuffer returns what headroom and reserves leave of a switch's buffer, 0 without one.
func (n *Node) SharedBuffer() units.Bytes {
	if n.QoS == nil || n.QoS.Buffer == 0 {
		return 0
	}
	shared := n.QoS.Buffer
	for p := range n.Ports {
		for _, h := range n.Ports[p].Headroom {
			shared -= h
		}
		for i := range n.Ports[p].Classes {
			shared -= n.Ports[p].Classes[i].Ingress.Reserve
		}
	}
	return shared
}

// Class returns the class of a priority; nil if there is none.
func (p *Port) Class(priority uint8) *class.Class {
	for i := range p.Classes {
		if p.Classes[i].Priority == priority {
			return &p.Classes[i]
		}
	}
	return nil
}

// ClassName returns the name of a class, by its priority, "" if there is none.
func (p *Port) ClassName(priority uint8) string {
	if c := p.Class(priority); c != nil {
		return c.Name
	}
	return ""
}

// Queue is an egress queue.
type Queue struct {
	Limit units.Bytes       // of frames without FCS; holds at least one of the link's MTU
	Mark  congestion.Choice // always the zero Config for a host
}

// Link joins two ports of different nodes.
type Link struct {
	Ends [2]End
	Dir  [2]links.Settings // Dir[i] is the direction that leaves Ends[i]
}

// End is a port, as the index of a node and the index of a port in it.
type End struct{ Node, Port int }

// Event changes one or both directions of a link during the run.
type Event struct {
	At   units.Time // not negative; a plan's events are sorted by it
	Link int
	Dir  [2]bool // which directions change
	Set  change.LinkPatch
}

// QueueEvent changes a queue of a port during the run.
type QueueEvent struct {
	At    units.Time // not negative
	Port  End
	Class int // number of the class of the port, -1 for a plain port
	Set   change.QueuePatch
}

// ClassIndex returns the number of a port's class of this name, -1 for a plain port. The name
// may be empty for a plain port, or if there is only one class.
func (p *Plan) ClassIndex(node, port int, class string) (int, error) {
	list := p.Nodes[node].Ports[port].Classes
	name := p.PortName(node, port)
	var names []string
	for i := range list {
		if list[i].Name == class || class == "" && len(list) == 1 {
			return i, nil
		}
		names = append(names, list[i].Name)
	}
	switch {
	case len(list) == 0 && class == "":
		return -1, nil
	case len(list) == 0:
		return 0, &NameError{Msg: fmt.Sprintf("%s has one plain queue and no class %q", name, class), Hint: "leave the class out"}
	case class == "":
		return 0, &NameError{Msg: name + " has a queue for each class", Hint: "name the class: " + suggest.List(names)}
	}
	return 0, &NameError{Msg: fmt.Sprintf("%s has no class %q", name, class), Hint: suggest.Hint(class, "its classes are", names)}
}

// The names of kinds, attachments and so on in lab files, by their values.
var (
	kindNames     = []string{"host", "switch"}
	AttachNames   = []string{"tap", "tun", "none", "vm"}
	OffloadNames  = []string{"on", "off"}
	RealtimeNames = []string{"auto", "off", "require"}
	IONames       = []string{"auto", "uring", "read-write"}
)

// String returns the name that a lab file uses.
func (k Kind) String() string { return kindNames[k] }

// String returns the name that a lab file uses.
func (a Attach) String() string { return AttachNames[a] }

// String returns the name that a lab file uses.
func (o Offload) String() string { return OffloadNames[o] }

// String returns the name that a lab file uses.
func (r Realtime) String() string { return RealtimeNames[r] }
func (i IO) String() string       { return IONames[i] }

// ShortestDelay returns the shortest propagation delay that a direction of a
// link has in the course of the plan's events.
func (p *Plan) ShortestDelay(link, dir int) units.Time {
	d := p.Links[link].Dir[dir].Delay
	for i := range p.Events {
		if e := &p.Events[i]; e.Link == link && e.Dir[dir] && e.Set.Delay != nil {
			d = min(d, *e.Set.Delay)
		}
	}
	return d
}

// Node finds a node by name.
func (p *Plan) Node(name string) (int, bool) {
	i := slices.IndexFunc(p.Nodes, func(n Node) bool { return n.Name == name })
	return i, i >= 0
}

// Endpoint finds a port by its name, such as "s1:3". The error says what is
// wrong with the name and which names exist.
func (p *Plan) Endpoint(name string) (node, port int, err error) {
	e, bad := p.endpoint(name)
	if bad != nil {
		return 0, 0, bad
	}
	return e.Node, e.Port, nil
}

// PortName returns the name of a port, such as "s1:3".
func (p *Plan) PortName(node, port int) string {
	n := p.Nodes[node]
	return n.Name + ":" + n.Ports[port].Name
}

// Telemetry reports whether any NIC sends packets with room for in-band telemetry, so that
// the switches write it.
func (p *Plan) Telemetry() bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.NIC != nil && cc.TraitsOf(n.NIC.Control).Telemetry > 0 })
}
