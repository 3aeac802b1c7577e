// Package labfile has the form of the lab file: its keys, the values that they take, and its
// JSON Schema. It reads YAML into a Lab, whose values have places in the file; it knows
// nothing of plans. Package resolve makes a plan of a Lab.
//
// A value of the file is read into a type of this package, whose yaml tag is its key and
// whose jsonschema tags describe it. Reader (package yamlfile) keeps the place of each
// value, so that a fault can be reported at its line.
//
// The format is described in docs/lab; its topology follows containerlab's, with generators
// added.
package labfile

import (
	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// The types here are the lab file as it is written: its keys, and which may be
// left out. The JSON Schema is made from them. A nil pointer is a missing key.

// Lab is a lab file. A nil pointer is a missing key, here and in the other types.
type Lab struct {
	Name       *string     `yaml:"name,omitempty" jsonschema_description:"name of the lab, at most 32 letters, digits, _ . -; default the file's name without extension" jsonschema:"pattern=^[a-zA-Z0-9][a-zA-Z0-9_.-]*$,maxLength=32"`
	Seed       *uint64     `yaml:"seed,omitempty" jsonschema_description:"seed of everything random; default 1"`
	Duration   *units.Time `yaml:"duration,omitempty" jsonschema_description:"how long weft sim runs; default until the last packet has arrived"`
	Dilation   *Dilation   `yaml:"dilation,omitempty" jsonschema_description:"seconds of real time that one second of the lab takes in wall-clock time, 1 to 1000000; default 1"`
	Fidelity   Fidelity    `yaml:"fidelity,omitempty" jsonschema_description:"how late packets may be in wall-clock time"`
	Engine     Engine      `yaml:"engine,omitempty" jsonschema_description:"how the engine uses the processor in wall-clock time"`
	Clock      *Clock      `yaml:"clock,omitempty" jsonschema_description:"how exact the clocks of nodes are: exact, real, or settings; default real in wall-clock time, exact in virtual time"`
	Addressing Addressing  `yaml:"addressing,omitempty" jsonschema_description:"pools for hosts without a given address"`
	Topology   Topology    `yaml:"topology" jsonschema_description:"nodes and links"`
	Events     []Event     `yaml:"events,omitempty" jsonschema_description:"changes to links and queues during the run"`
	Workload   []Workload  `yaml:"workload,omitempty" jsonschema_description:"modelled traffic"`
	Window     *Window     `yaml:"window,omitempty" jsonschema_description:"which flows of patterns count, and how long a run waits for them; default all"`
	Series     *Series     `yaml:"series,omitempty" jsonschema_description:"queues to sample over time, for --series"`
}

func (Lab) Noun() string { return "a lab" }

// Fidelity says how late packets may be in wall-clock time.
type Fidelity struct {
	Mode  Mode            `yaml:"mode,omitempty" jsonschema_description:"report lateness, or fail the run (strict); default report"`
	Limit *units.Time     `yaml:"limit,omitempty" jsonschema_description:"maximum lateness of a packet, in emulated time; default 1ms"`
	Share *units.Fraction `yaml:"share,omitempty" jsonschema_description:"share of packets that may exceed the limit; default 0%"`
}

// Engine says how the engine uses the processor in wall-clock time.
type Engine struct {
	Spin     *units.Time `yaml:"spin,omitempty" jsonschema_description:"busy waiting before a deadline, at most 1s of real time at any dilation; default 0"`
	Realtime Realtime    `yaml:"realtime,omitempty" jsonschema_description:"real-time scheduling (SCHED_FIFO) of the engine: where allowed, never, or required; default auto"`
	IO       IO          `yaml:"io,omitempty" jsonschema_description:"how devices of hosts without offload are read and written: io_uring where the kernel allows it, io_uring only, or read and write; default auto"`
}

// MovedKeys returns keys that existed in earlier versions.
func (Engine) MovedKeys() map[string]string {
	return map[string]string{"shards": "it no longer exists: leave it out (weft sim --workers 2 and weft up --workers 2 run a lab with two threads)"}
}

// Addressing holds the pools of addresses. A nil pool means the default.
type Addressing struct {
	IPv4 *Pool `yaml:"ipv4,omitempty" jsonschema_description:"pool of IPv4 addresses, or none; default 10.0.0.0/16"`
	IPv6 *Pool `yaml:"ipv6,omitempty" jsonschema_description:"pool of IPv6 addresses, or none; default fd00::/64"`

	Routers RouterPools `yaml:"routers,omitempty" jsonschema_description:"pools for routers without a given address"`
}

// RouterPools holds the pools for the routers' own addresses.
type RouterPools struct {
	IPv4 *Pool `yaml:"ipv4,omitempty" jsonschema_description:"pool of IPv4 addresses, or none; default 10.255.0.0/16"`
	IPv6 *Pool `yaml:"ipv6,omitempty" jsonschema_description:"pool of IPv6 addresses, or none; default fd00:ffff::/64"`
}

// Topology is the nodes and links of a lab.
type Topology struct {
	Kinds    Kinds               `yaml:"kinds,omitempty" jsonschema_description:"defaults of each kind"`
	Generate *Generate           `yaml:"generate,omitempty" jsonschema_description:"generated topology"`
	Nodes    yamlfile.Dict[Node] `yaml:"nodes,omitempty" jsonschema_description:"hosts and switches by name"`
	Links    []Link              `yaml:"links,omitempty" jsonschema_description:"links between nodes"`
	Reroute  *Reroute            `yaml:"reroute,omitempty" jsonschema_description:"whether and when switches react to links that go down or come up; default never"`
}

// Kinds holds the defaults of each kind of node, and of links.
type Kinds struct {
	Switch SwitchKind       `yaml:"switch,omitempty" jsonschema_description:"defaults of switches"`
	Host   HostKind         `yaml:"host,omitempty" jsonschema_description:"defaults of hosts"`
	VM     VMKind           `yaml:"vm,omitempty" jsonschema_description:"defaults of virtual machines"`
	Link   change.LinkPatch `yaml:"link,omitempty" jsonschema_description:"defaults of links"`
}

// SwitchKind holds the defaults of switches.
type SwitchKind struct {
	Address *AutoAddress `yaml:"address,omitempty" jsonschema_description:"auto makes all switches routers with an address from the pools, none leaves them switches; default none"`

	Queue      Queue                `yaml:"queue,omitempty" jsonschema_description:"egress queue of every port"`
	Classes    yamlfile.Dict[Class] `yaml:"classes,omitempty" jsonschema_description:"traffic classes by name"`
	Switch     `yaml:",inline"`
	Forwarding *Forwarding `yaml:"forwarding,omitempty" jsonschema_description:"how a switch chooses among several paths to a destination; default ecmp"`
	Learning   *Learning   `yaml:"learning,omitempty" jsonschema_description:"how a switch learns which Ethernet addresses are behind which port, on or off; default on"`
	Clock      *Clock      `yaml:"clock,omitempty" jsonschema_description:"how exact the clocks of switches are: exact, real, or settings; default that of the lab"`
}

// HostKind holds the defaults of hosts.
type HostKind struct {
	Attach     *Attach                        `yaml:"attach,omitempty" jsonschema_description:"how interfaces reach programs; default tap"`
	Offload    *Offload                       `yaml:"offload,omitempty" jsonschema_description:"whether hosts send up to 64 KB at once, which the emulator splits, and receive runs of packets joined; default on"`
	JoinWindow *units.Time                    `yaml:"join-window,omitempty" jsonschema_description:"how long a packet to the host waits to be joined with others, at most 1ms; default 20us"`
	Sysctls    yamlfile.Dict[yamlfile.Scalar] `yaml:"sysctls,omitempty" jsonschema_description:"kernel settings below net."`
	Private    yamlfile.OneOrMore[PrivateDir] `yaml:"private,omitempty" jsonschema_description:"private directories of each host, empty at first, such as /tmp"`
	Queue      Queue                          `yaml:"queue,omitempty" jsonschema_description:"egress queue of every interface"`

	Exec []ExecForm `yaml:"exec,omitempty" jsonschema_description:"commands that each host runs in order when the lab comes up"`

	Classes yamlfile.Dict[Class] `yaml:"classes,omitempty" jsonschema_description:"traffic classes by name; default the classes of the switch that the host is connected to"`
	NIC     *NICForm             `yaml:"nic,omitempty" jsonschema_description:"RDMA NIC of every connected interface: settings, or roce for one with all defaults, or none; default none"`
	Clock   *Clock               `yaml:"clock,omitempty" jsonschema_description:"how exact the clocks of hosts are: exact, real, or settings; default that of the lab"`
	Edge    *Edge                `yaml:"edge,omitempty" jsonschema_description:"edge service between hosts and their ports: {name: {settings}}, or none; default none"`
}

// Node is what a file says about one node. Which keys it may have depends on its kind.
type Node struct {
	Kind *NodeKind `yaml:"kind,omitempty" jsonschema_description:"host, switch, or vm for a virtual machine; may be left out for a node that the generator makes"`

	Address yamlfile.OneOrMore[NodeAddress] `yaml:"address,omitempty" jsonschema_description:"host: addresses of its first interface with prefix lengths, default from the pools; switch: addresses that make it a router, or auto, or none; default that of the kind"`

	Attach     *Attach                        `yaml:"attach,omitempty" jsonschema_description:"host: how its interfaces reach programs; default tap"`
	Offload    *Offload                       `yaml:"offload,omitempty" jsonschema_description:"host: whether it sends up to 64 KB at once, which the emulator splits, and receives runs of packets joined; default on"`
	JoinWindow *units.Time                    `yaml:"join-window,omitempty" jsonschema_description:"host: how long a packet to the host waits to be joined with others, at most 1ms; default 20us"`
	MAC        *MAC                           `yaml:"mac,omitempty" jsonschema_description:"host: Ethernet address of its first interface; default numbered from 02:00:00:00:00:01"`
	Routes     []Route                        `yaml:"routes,omitempty" jsonschema_description:"static routes: for a host via addresses, for a switch via ports"`
	Sysctls    yamlfile.Dict[yamlfile.Scalar] `yaml:"sysctls,omitempty" jsonschema_description:"host: kernel settings below net."`
	Private    yamlfile.OneOrMore[PrivateDir] `yaml:"private,omitempty" jsonschema_description:"host: private directories, empty at first, such as /tmp; added to those of the kind"`
	Interfaces yamlfile.Dict[Interface]       `yaml:"interfaces,omitempty" jsonschema_description:"host: settings of single interfaces by name"`
	NIC        *NICForm                       `yaml:"nic,omitempty" jsonschema_description:"host: RDMA NIC of every connected interface: settings, or roce for one with all defaults, or none; default that of the kind"`
	Edge       *Edge                          `yaml:"edge,omitempty" jsonschema_description:"host: edge service between it and its ports: {name: {settings}}, or none; default that of the kind"`

	Exec []ExecForm `yaml:"exec,omitempty" jsonschema_description:"host or vm: commands that it runs in order when the lab comes up, after those of the kind"`

	ECMPSeed *uint64             `yaml:"ecmp-seed,omitempty" jsonschema_description:"switch: seed of the choice between equal paths; default from the lab's seed and the name"`
	Ports    yamlfile.Dict[Port] `yaml:"ports,omitempty" jsonschema_description:"switch: settings of single ports by name"`

	Forwarding *Forwarding `yaml:"forwarding,omitempty" jsonschema_description:"switch: how it chooses among several paths to a destination; default that of the kind"`
	Learning   *Learning   `yaml:"learning,omitempty" jsonschema_description:"switch: how it learns which Ethernet addresses are behind which port, on or off; default that of the kind"`

	Clock *Clock `yaml:"clock,omitempty" jsonschema_description:"how exact the node's clock is: exact, real, or settings; default that of the kind"`
	Queue Queue  `yaml:"queue,omitempty" jsonschema_description:"egress queue of every port"`

	Classes yamlfile.Dict[Class] `yaml:"classes,omitempty" jsonschema_description:"traffic classes by name"`
	Switch  `yaml:",inline"`
	VM      `yaml:",inline"`
}

// Route is a static route of a host or a switch.
type Route struct {
	To  Destination                   `yaml:"to" jsonschema_description:"prefix, or default; for a switch also a host or a host's interface"`
	Via yamlfile.OneOrMore[RouteStep] `yaml:"via" jsonschema_description:"for a host: address of the next hop, on the link of one of its interfaces; for a switch: a port or a list of ports"`
}

func (Route) Noun() string { return "a route" }

// Interface holds the settings of one interface of a host.
type Interface struct {
	Address yamlfile.OneOrMore[Address] `yaml:"address,omitempty" jsonschema_description:"addresses; default from the pools"`
	MAC     *MAC                        `yaml:"mac,omitempty" jsonschema_description:"Ethernet address"`
	Queue   Queue                       `yaml:"queue,omitempty" jsonschema_description:"egress queue"`
}

// Port holds the settings of one port of a switch.
type Port struct {
	Queue Queue `yaml:"queue,omitempty" jsonschema_description:"egress queue"`

	Address yamlfile.OneOrMore[Address] `yaml:"address,omitempty" jsonschema_description:"addresses with prefix lengths, which make the switch a router; default from the pools where hosts are behind the port"`
}

// Queue is the egress queue of a port.
type Queue struct {
	Limit *units.Bytes `yaml:"limit,omitempty" jsonschema_description:"maximum queue length in bytes; default 1MB for a switch, 10MB for a host"`
	Mark  *Mark        `yaml:"mark,omitempty" jsonschema_description:"marking of packets (ECN), switches only; default none"`
}

// MergeOver returns q with missing keys taken from base.
func (q Queue) MergeOver(base Queue) Queue {
	if q.Limit == nil {
		q.Limit = base.Limit
	}
	if q.Mark == nil {
		q.Mark = base.Mark
	}
	return q
}

// Link is a link and its settings in both directions.
type Link struct {
	Endpoints        []string `yaml:"endpoints" jsonschema_description:"the two ports that the link joins, as node:port" jsonschema:"minItems=2,maxItems=2"`
	change.LinkPatch `yaml:",inline"`
	From             yamlfile.Dict[Direction] `yaml:"from,omitempty" jsonschema_description:"other settings for the direction that leaves one of the endpoints"`
}

func (Link) Noun() string { return "a link" }

// Direction holds the settings of the direction of a link that leaves one endpoint.
type Direction struct {
	change.LinkPatch `yaml:",inline"`
	Queue            Queue `yaml:"queue,omitempty" jsonschema_description:"egress queue of the port"`
}

func (Direction) Noun() string { return "one direction of a link" }

// Event is a change to a link or a queue during the run.
type Event struct {
	At    units.Time         `yaml:"at" jsonschema_description:"time from the start of the run"`
	Link  *string            `yaml:"link,omitempty" jsonschema_description:"the link to change in both directions, by one of its endpoints"`
	From  *string            `yaml:"from,omitempty" jsonschema_description:"the link to change in the direction that leaves this endpoint"`
	Set   *change.LinkPatch  `yaml:"set,omitempty" jsonschema_description:"the settings of the link that change"`
	Port  *string            `yaml:"port,omitempty" jsonschema_description:"the port whose queue changes"`
	Class *string            `yaml:"class,omitempty" jsonschema_description:"the class of that queue; required at a port with several"`
	Queue *change.QueuePatch `yaml:"queue,omitempty" jsonschema_description:"the settings of the queue that change"`
}

func (Event) Noun() string { return "an event" }
