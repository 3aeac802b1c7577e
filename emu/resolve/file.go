package resolve

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// The types here are the lab file as it is written: its keys, and which may be
// left out. The JSON Schema is made from them. A nil pointer is a missing key.

type labFile struct {
	Name       *string        `yaml:"name,omitempty" jsonschema_description:"name of the lab, at most 32 letters, digits, _ . -; default the file's name without extension" jsonschema:"pattern=^[a-zA-Z0-9][a-zA-Z0-9_.-]*$,maxLength=32"`
	Seed       *uint64        `yaml:"seed,omitempty" jsonschema_description:"seed of everything random; default 1"`
	Duration   *units.Time    `yaml:"duration,omitempty" jsonschema_description:"how long weft sim runs; default until the last packet has arrived"`
	Dilation   *dilation      `yaml:"dilation,omitempty" jsonschema_description:"seconds of real time that one second of the lab takes in wall-clock time, 1 to 1000000; default 1"`
	Fidelity   fidelityFile   `yaml:"fidelity,omitempty" jsonschema_description:"how late packets may be in wall-clock time"`
	Engine     engineFile     `yaml:"engine,omitempty" jsonschema_description:"how the engine uses the processor in wall-clock time"`
	Addressing addressingFile `yaml:"addressing,omitempty" jsonschema_description:"pools for hosts without a given address"`
	Topology   topologyFile   `yaml:"topology" jsonschema_description:"nodes and links"`
	Events     []eventFile    `yaml:"events,omitempty" jsonschema_description:"changes to links during the run"`
	Workload   []workloadFile `yaml:"workload,omitempty" jsonschema_description:"modelled traffic"`
	Window     *windowFile    `yaml:"window,omitempty" jsonschema_description:"which flows of patterns count, and how long a run waits for them; default all"`
	Series     *seriesFile    `yaml:"series,omitempty" jsonschema_description:"queues to sample over time, for --series"`
}

func (labFile) Noun() string { return "a lab" }

type fidelityFile struct {
	Mode  mode            `yaml:"mode,omitempty" jsonschema_description:"report lateness, or fail the run (strict); default report"`
	Limit *units.Time     `yaml:"limit,omitempty" jsonschema_description:"maximum lateness of a packet, in emulated time; default 1ms"`
	Share *units.Fraction `yaml:"share,omitempty" jsonschema_description:"share of packets that may exceed the limit; default 0%"`
}

type engineFile struct {
	Spin     *units.Time `yaml:"spin,omitempty" jsonschema_description:"busy waiting before a deadline, at most 1s of real time at any dilation; default 0"`
	Realtime realtime    `yaml:"realtime,omitempty" jsonschema_description:"real-time scheduling (SCHED_FIFO) of the engine: where allowed, never, or required; default auto"`
	IO       ioWay       `yaml:"io,omitempty" jsonschema_description:"how devices of hosts without offload are read and written: io_uring where the kernel allows it, io_uring only, or read and write; default auto"`
}

// Moved returns keys that existed in earlier versions.
func (engineFile) Moved() map[string]string {
	return map[string]string{"shards": "it no longer exists: leave it out (weft sim --workers 2 and weft up --workers 2 run a lab with two threads)"}
}

type addressingFile struct {
	IPv4 *pool `yaml:"ipv4,omitempty" jsonschema_description:"pool of IPv4 addresses, or none; default 10.0.0.0/16"`
	IPv6 *pool `yaml:"ipv6,omitempty" jsonschema_description:"pool of IPv6 addresses, or none; default fd00::/64"`

	Routers routerPoolsFile `yaml:"routers,omitempty" jsonschema_description:"pools for routers without a given address"`
}

// routerPoolsFile holds the pools for the routers' own addresses.
type routerPoolsFile struct {
	IPv4 *pool `yaml:"ipv4,omitempty" jsonschema_description:"pool of IPv4 addresses, or none; default 10.255.0.0/16"`
	IPv6 *pool `yaml:"ipv6,omitempty" jsonschema_description:"pool of IPv6 addresses, or none; default fd00:ffff::/64"`
}

type topologyFile struct {
	Kinds    kindsFile               `yaml:"kinds,omitempty" jsonschema_description:"defaults of each kind"`
	Generate *generateFile           `yaml:"generate,omitempty" jsonschema_description:"generated topology"`
	Nodes    yamlfile.Dict[nodeFile] `yaml:"nodes,omitempty" jsonschema_description:"hosts and switches by name"`
	Links    []linkFile              `yaml:"links,omitempty" jsonschema_description:"links between nodes"`
	Reroute  *rerouteFile            `yaml:"reroute,omitempty" jsonschema_description:"whether and when switches react to links that go down or come up; default never"`
}

type kindsFile struct {
	Switch switchKindFile `yaml:"switch,omitempty" jsonschema_description:"defaults of switches"`
	Host   hostKindFile   `yaml:"host,omitempty" jsonschema_description:"defaults of hosts"`
	VM     vmKindFile     `yaml:"vm,omitempty" jsonschema_description:"defaults of virtual machines"`
	Link   plan.LinkPatch `yaml:"link,omitempty" jsonschema_description:"defaults of links"`
}

type switchKindFile struct {
	Address *autoAddress `yaml:"address,omitempty" jsonschema_description:"auto makes all switches routers with an address from the pools, none leaves them switches; default none"`

	Queue      queueFile                `yaml:"queue,omitempty" jsonschema_description:"egress queue of every port"`
	Classes    yamlfile.Dict[classFile] `yaml:"classes,omitempty" jsonschema_description:"traffic classes by name"`
	switchFile `yaml:",inline"`
	Forwarding *forwardingFile `yaml:"forwarding,omitempty" jsonschema_description:"how a switch chooses among several paths to a destination; default ecmp"`
}

type hostKindFile struct {
	Attach     *attach                        `yaml:"attach,omitempty" jsonschema_description:"how interfaces reach programs; default tap"`
	Offload    *offload                       `yaml:"offload,omitempty" jsonschema_description:"whether hosts send up to 64 KB at once, which the emulator splits, and receive runs of packets joined; default on"`
	JoinWindow *units.Time                    `yaml:"join-window,omitempty" jsonschema_description:"how long a packet to the host waits to be joined with others, at most 1ms; default 20us"`
	Sysctls    yamlfile.Dict[yamlfile.Scalar] `yaml:"sysctls,omitempty" jsonschema_description:"kernel settings below net."`
	Private    yamlfile.OneOrMore[privateDir] `yaml:"private,omitempty" jsonschema_description:"private directories of each host, empty at first, such as /tmp"`
	Queue      queueFile                      `yaml:"queue,omitempty" jsonschema_description:"egress queue of every interface"`

	Exec []execForm `yaml:"exec,omitempty" jsonschema_description:"commands that each host runs in order when the lab comes up"`

	Classes yamlfile.Dict[classFile] `yaml:"classes,omitempty" jsonschema_description:"traffic classes by name; default the classes of the switch that the host is connected to"`
	NIC     *nicForm                 `yaml:"nic,omitempty" jsonschema_description:"RDMA NIC of every connected interface: settings, or roce for one with all defaults, or none; default none"`
	Edge    *edgeFile                `yaml:"edge,omitempty" jsonschema_description:"edge service between hosts and their ports: {name: {settings}}, or none; default none"`
}

type nodeFile struct {
	Kind *nodeKind `yaml:"kind,omitempty" jsonschema_description:"host, switch, or vm for a virtual machine; may be left out for a node that the generator makes"`

	Address yamlfile.OneOrMore[nodeAddress] `yaml:"address,omitempty" jsonschema_description:"host: addresses of its first interface with prefix lengths, default from the pools; switch: addresses that make it a router, or auto, or none; default that of the kind"`

	Attach     *attach                        `yaml:"attach,omitempty" jsonschema_description:"host: how its interfaces reach programs; default tap"`
	Offload    *offload                       `yaml:"offload,omitempty" jsonschema_description:"host: whether it sends up to 64 KB at once, which the emulator splits, and receives runs of packets joined; default on"`
	JoinWindow *units.Time                    `yaml:"join-window,omitempty" jsonschema_description:"host: how long a packet to the host waits to be joined with others, at most 1ms; default 20us"`
	MAC        *mac                           `yaml:"mac,omitempty" jsonschema_description:"host: Ethernet address of its first interface; default numbered from 02:00:00:00:00:01"`
	Routes     []routeFile                    `yaml:"routes,omitempty" jsonschema_description:"static routes: for a host via addresses, for a switch via ports"`
	Sysctls    yamlfile.Dict[yamlfile.Scalar] `yaml:"sysctls,omitempty" jsonschema_description:"host: kernel settings below net."`
	Private    yamlfile.OneOrMore[privateDir] `yaml:"private,omitempty" jsonschema_description:"host: private directories, empty at first, such as /tmp; added to those of the kind"`
	Interfaces yamlfile.Dict[interfaceFile]   `yaml:"interfaces,omitempty" jsonschema_description:"host: settings of single interfaces by name"`
	NIC        *nicForm                       `yaml:"nic,omitempty" jsonschema_description:"host: RDMA NIC of every connected interface: settings, or roce for one with all defaults, or none; default that of the kind"`
	Edge       *edgeFile                      `yaml:"edge,omitempty" jsonschema_description:"host: edge service between it and its ports: {name: {settings}}, or none; default that of the kind"`

	Exec []execForm `yaml:"exec,omitempty" jsonschema_description:"host or vm: commands that it runs in order when the lab comes up, after those of the kind"`

	ECMPSeed *uint64                 `yaml:"ecmp-seed,omitempty" jsonschema_description:"switch: seed of the choice between equal paths; default from the lab's seed and the name"`
	Ports    yamlfile.Dict[portFile] `yaml:"ports,omitempty" jsonschema_description:"switch: settings of single ports by name"`

	Forwarding *forwardingFile `yaml:"forwarding,omitempty" jsonschema_description:"switch: how it chooses among several paths to a destination; default that of the kind"`

	Queue queueFile `yaml:"queue,omitempty" jsonschema_description:"egress queue of every port"`

	Classes    yamlfile.Dict[classFile] `yaml:"classes,omitempty" jsonschema_description:"traffic classes by name"`
	switchFile `yaml:",inline"`
	vmFile     `yaml:",inline"`
}

type routeFile struct {
	To  destination                   `yaml:"to" jsonschema_description:"prefix, or default; for a switch also a host or a host's interface"`
	Via yamlfile.OneOrMore[routeStep] `yaml:"via" jsonschema_description:"for a host: address of the next hop, on the link of one of its interfaces; for a switch: a port or a list of ports"`
}

func (routeFile) Noun() string { return "a route" }

type interfaceFile struct {
	Address yamlfile.OneOrMore[address] `yaml:"address,omitempty" jsonschema_description:"addresses; default from the pools"`
	MAC     *mac                        `yaml:"mac,omitempty" jsonschema_description:"Ethernet address"`
	Queue   queueFile                   `yaml:"queue,omitempty" jsonschema_description:"egress queue"`
}

type portFile struct {
	Queue queueFile `yaml:"queue,omitempty" jsonschema_description:"egress queue"`

	Address yamlfile.OneOrMore[address] `yaml:"address,omitempty" jsonschema_description:"addresses with prefix lengths, which make the switch a router; default from the pools where hosts are behind the port"`
}

type queueFile struct {
	Limit *units.Bytes `yaml:"limit,omitempty" jsonschema_description:"maximum queue length in bytes; default 1MB for a switch, 10MB for a host"`
	Mark  *markFile    `yaml:"mark,omitempty" jsonschema_description:"marking of packets (ECN), switches only; default none"`
}

// over returns q with missing keys taken from base.
func (q queueFile) over(base queueFile) queueFile {
	if q.Limit == nil {
		q.Limit = base.Limit
	}
	if q.Mark == nil {
		q.Mark = base.Mark
	}
	return q
}

type generateFile struct {
	yamlfile.OneKey `yaml:",inline"`
	Star            *star       `yaml:"star,omitempty" jsonschema_description:"hosts around one switch, s1"`
	Dumbbell        *dumbbell   `yaml:"dumbbell,omitempty" jsonschema_description:"two switches, s1 and s2, with a bottleneck between them"`
	ParkingLot      *parkingLot `yaml:"parking-lot,omitempty" jsonschema_description:"a chain of switches whose links each carry the long path and one short one"`
	LeafSpine       *leafSpine  `yaml:"leaf-spine,omitempty" jsonschema_description:"leaves with hosts, each leaf joined to every spine"`
	FatTree         *fatTree    `yaml:"fat-tree,omitempty" jsonschema_description:"the k-ary fat-tree of switches with k ports (Al-Fares et al., SIGCOMM 2008)"`
}

type linkFile struct {
	Endpoints      []string `yaml:"endpoints" jsonschema_description:"the two ports that the link joins, as node:port" jsonschema:"minItems=2,maxItems=2"`
	plan.LinkPatch `yaml:",inline"`
	From           yamlfile.Dict[directionFile] `yaml:"from,omitempty" jsonschema_description:"other settings for the direction that leaves one of the endpoints"`
}

func (linkFile) Noun() string { return "a link" }

type directionFile struct {
	plan.LinkPatch `yaml:",inline"`
	Queue          queueFile `yaml:"queue,omitempty" jsonschema_description:"egress queue of the port"`
}

func (directionFile) Noun() string { return "one direction of a link" }

type eventFile struct {
	At   units.Time     `yaml:"at" jsonschema_description:"time from the start of the run"`
	Link *string        `yaml:"link,omitempty" jsonschema_description:"the link to change in both directions, by one of its endpoints"`
	From *string        `yaml:"from,omitempty" jsonschema_description:"the link to change in the direction that leaves this endpoint"`
	Set  plan.LinkPatch `yaml:"set" jsonschema_description:"the settings that change"`
}

func (eventFile) Noun() string { return "an event" }

// workloadFile is a flow of packets, RDMA transfers, or a pattern of flows.
type workloadFile struct {
	yamlfile.OneKey `yaml:",inline"`
	CBR             *constantFile `yaml:"cbr,omitempty" jsonschema_description:"packets at a constant rate"`
	Poisson         *constantFile `yaml:"poisson,omitempty" jsonschema_description:"packets with exponential gaps"`
	OnOff           *onOffFile    `yaml:"on-off,omitempty" jsonschema_description:"packets at a constant rate in phases, separated by silent phases"`
	Write           *pairFile     `yaml:"write,omitempty" jsonschema_description:"RDMA WRITEs from hosts to hosts"`
	Read            *pairFile     `yaml:"read,omitempty" jsonschema_description:"RDMA READs: the hosts under from read from the hosts under to"`
	Send            *pairFile     `yaml:"send,omitempty" jsonschema_description:"SENDs from hosts to hosts"`
	Incast          *incastFile   `yaml:"incast,omitempty" jsonschema_description:"RDMA data from many hosts to one"`
	Permutation     *meshFile     `yaml:"permutation,omitempty" jsonschema_description:"RDMA from every host to one other, in a permutation drawn from the seed: every host sends to one peer and receives from one"`
	AllToAll        *meshFile     `yaml:"all-to-all,omitempty" jsonschema_description:"RDMA from every host to every other"`

	Arrivals        *arrivalsFile        `yaml:"arrivals,omitempty" jsonschema_description:"flows at random times, independent of earlier flows: an offered load"`
	Requests        *requestsFile        `yaml:"requests,omitempty" jsonschema_description:"requests to several workers, which all answer: partition and aggregate, incast, remote procedure calls"`
	Bursts          *burstsFile          `yaml:"bursts,omitempty" jsonschema_description:"bursts of flows one after the other, and silence between them"`
	FlowPermutation *flowPermutationFile `yaml:"flow-permutation,omitempty" jsonschema_description:"flow after flow from every host to one other"`
	FlowAllToAll    *flowAllToAllFile    `yaml:"flow-all-to-all,omitempty" jsonschema_description:"one flow from every host to every other"`
	Collective      *collectiveFile      `yaml:"collective,omitempty" jsonschema_description:"collective communication, in iterations"`
	FlowList        *flowListFile        `yaml:"flow-list,omitempty" jsonschema_description:"flows from another simulator's file"`
}

// constantFile is a flow with a constant mean rate.
type constantFile struct {
	Name *string                    `yaml:"name,omitempty" jsonschema_description:"name in records; default sender-receiver"`
	From yamlfile.OneOrMore[string] `yaml:"from" jsonschema_description:"sending hosts, with * and ? as wildcards"`
	To   yamlfile.OneOrMore[string] `yaml:"to" jsonschema_description:"receiving hosts, likewise; every sender sends to every receiver except itself"`
	Rate units.Rate                 `yaml:"rate" jsonschema_description:"rate of UDP payload while the flow sends"`
	Size units.Bytes                `yaml:"size" jsonschema_description:"UDP payload of each packet"`
	At   units.Time                 `yaml:"at,omitempty" jsonschema_description:"start time; default 0"`
	For  *units.Time                `yaml:"for,omitempty" jsonschema_description:"how long the flow sends; default until the run ends"`
	ECT  bool                       `yaml:"ect,omitempty" jsonschema_description:"whether packets are ECN-capable, ECT(0); default false"`
	DSCP dscp                       `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default 0"`
	IP   *ipVersion                 `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where both hosts have an IPv4 address, otherwise 6"`
}

// onOffFile is a flow that sends in phases.
type onOffFile struct {
	constantFile `yaml:",inline"`
	On           units.Time `yaml:"on" jsonschema_description:"mean length of the sending phases"`
	Off          units.Time `yaml:"off" jsonschema_description:"mean length of the silent phases"`
	Phases       phases     `yaml:"phases,omitempty" jsonschema_description:"whether phases have a fixed length or one drawn from an exponential distribution; default fixed"`
}
