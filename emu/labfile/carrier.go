package labfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// NDPFlows holds the settings of flows that use NDP.
type NDPFlows struct {
	DSCP        DSCP            `yaml:"dscp,omitempty" jsonschema_description:"DSCP of data packets, 0 to 63; default 0"`
	ControlDSCP *DSCP           `yaml:"control-dscp,omitempty" jsonschema_description:"DSCP of ACKs, NACKs and PULLs, 0 to 63; default 46"`
	IP          *IPVersion      `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where all hosts have an IPv4 address, otherwise 6"`
	MTU         *units.Bytes    `yaml:"mtu,omitempty" jsonschema_description:"largest packet, including its IP header; default the smallest mtu of the hosts' links"`
	Window      *int            `yaml:"window,omitempty" jsonschema_description:"packets that a flow sends before it waits for PULLs, 1 to 16384; default the bandwidth-delay product of its path without queues, plus 16"`
	Paths       *int            `yaml:"paths,omitempty" jsonschema_description:"number of path IDs that a flow uses in turn, as UDP source ports from 49152 on, 1 to 4096; default 256"`
	PathPenalty *bool           `yaml:"path-penalty,omitempty" jsonschema_description:"whether a flow skips paths with many more NACKs or losses than others for some turns; default false"`
	RTO         *units.Time     `yaml:"rto,omitempty" jsonschema_description:"minimum retransmission timeout; default 1ms"`
	MaxRTO      *units.Time     `yaml:"max-rto,omitempty" jsonschema_description:"maximum timeout after doubling; default 100ms"`
	Retries     *int            `yaml:"retries,omitempty" jsonschema_description:"consecutive timeouts after which a flow fails, 1 to 30; default 15"`
	PullShare   *units.Fraction `yaml:"pull-share,omitempty" jsonschema_description:"share of a receiver's link at which PULLs ask for data, 1% to 100%; default 99%"`
	Priority    *int            `yaml:"priority,omitempty" jsonschema_description:"priority of PULLs at a receiver, highest first, 0 to 255; default 0"`
}

// CarrierForm is what carries flows: a word, or a mapping with settings.
type CarrierForm struct{ Value Carrier }

func (f *CarrierForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	switch text, scalar := yamlfile.ScalarText(n); {
	case !scalar:
		r.Read(&f.Value, n, what)
	case text == "rdma":
		f.Value.RDMA = &RDMAFlows{}
	case text == "tcp":
		f.Value.TCP = &TCPFlows{}
	case text == "ndp":
		f.Value.NDP = &NDPFlows{}
	case text == "udp":
		f.Value.UDP = &UDPFlows{}
	default:
		r.FailAt(n, "for settings write for example by: {udp: {rate: 1Gbps}}", "%s: %q must be one of rdma, tcp, ndp, udp", what, text)
	}
}

func (CarrierForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema("rdma", "tcp", "ndp", "udp"), m.SchemaOf(reflect.TypeFor[Carrier]())}}
}

// Carrier is the carrier of flows, with its settings: one of the fields is set.
type Carrier struct {
	yamlfile.OneKey `yaml:",inline"`
	RDMA            *RDMAFlows `yaml:"rdma,omitempty" jsonschema_description:"reliable connections between NICs; rate control starts afresh for each flow, unless connections is per-pair"`
	TCP             *TCPFlows  `yaml:"tcp,omitempty" jsonschema_description:"TCP connections, modelled at both ends; one for each flow"`
	NDP             *NDPFlows  `yaml:"ndp,omitempty" jsonschema_description:"NDP connections, modelled at both ends: switches trim, receivers pull"`
	UDP             *UDPFlows  `yaml:"udp,omitempty" jsonschema_description:"datagrams at a fixed rate, without acknowledgements or retransmissions"`
}

// RDMAFlows holds the settings of flows that use RDMA.
type RDMAFlows struct {
	Verb  workload.Verb `yaml:"verb,omitempty" jsonschema_description:"operation of a flow's messages: write or send; default write"`
	MTU   *PathMTU      `yaml:"mtu,omitempty" jsonschema_description:"path MTU; default the smallest mtu of the hosts' NICs"`
	DSCP  *DSCP         `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default the DSCP of the hosts' NICs"`
	Chunk *units.Bytes  `yaml:"chunk,omitempty" jsonschema_description:"largest message: a larger flow is sent as several; default 2147483647B"`
	IP    *IPVersion    `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where all hosts have an IPv4 address, otherwise 6"`
}

// UDPFlows holds the settings of flows that use UDP.
type UDPFlows struct {
	Rate *units.Rate  `yaml:"rate,omitempty" jsonschema_description:"rate of each flow on the wire; default the rate of the sender's link"`
	Size *units.Bytes `yaml:"size,omitempty" jsonschema_description:"UDP payload of each packet; default the largest that fits the mtu of the hosts' links"`
	ECT  bool         `yaml:"ect,omitempty" jsonschema_description:"whether packets are ECN-capable, ECT(0); default false"`
	DSCP DSCP         `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default 0"`
	IP   *IPVersion   `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where all hosts have an IPv4 address, otherwise 6"`
}

// TCPFlows holds the settings of flows that use TCP.
type TCPFlows struct {
	Control    *Control     `yaml:"cc,omitempty" jsonschema_description:"rate control of each flow; default cubic"`
	DSCP       DSCP         `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default 0"`
	IP         *IPVersion   `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where all hosts have an IPv4 address, otherwise 6"`
	MTU        *units.Bytes `yaml:"mtu,omitempty" jsonschema_description:"largest packet, including its IP header; default the smallest mtu of the hosts' links"`
	Window     *units.Bytes `yaml:"receive-window,omitempty" jsonschema_description:"the receiver's buffer: maximum of a flow's bytes in flight; default 3MiB"`
	Timestamps *bool        `yaml:"timestamps,omitempty" jsonschema_description:"whether segments carry timestamps; default true"`
	InitialRTO *units.Time  `yaml:"initial-rto,omitempty" jsonschema_description:"retransmission timeout before the first RTT sample; default 1s"`
	MinRTO     *units.Time  `yaml:"min-rto,omitempty" jsonschema_description:"minimum margin of the timeout over the smoothed RTT; default 200ms"`
	MaxRTO     *units.Time  `yaml:"max-rto,omitempty" jsonschema_description:"maximum timeout after backoff; default 120s"`
	Retries    *int         `yaml:"retries,omitempty" jsonschema_description:"consecutive timeouts after which a flow fails, 1 to 30; default 15"`
	TailProbes *bool        `yaml:"tail-probes,omitempty" jsonschema_description:"whether to send a tail loss probe (TLP) before the timeout; default true"`
	AckEvery   *int         `yaml:"ack-every,omitempty" jsonschema_description:"maximum number of full segments before an acknowledgement is sent, 1 to 1000; default 2"`
	QuickAcks  *int         `yaml:"quick-acks,omitempty" jsonschema_description:"number of acknowledgements at the start of a flow that are not delayed, 0 to 32768; default 16"`
	SACKDelay  *units.Time  `yaml:"sack-delay,omitempty" jsonschema_description:"maximum delay of an acknowledgement of out-of-order segments, at most 5% of the RTT; default 1ms"`
	DelayedAck *units.Time  `yaml:"delayed-ack,omitempty" jsonschema_description:"maximum delay of an acknowledgement; default 40ms"`
}

// TCPPair is TCP flows from some hosts to others, all at one time.
type TCPPair struct {
	Name     *string                    `yaml:"name,omitempty" jsonschema_description:"name in records; default sender-receiver, with several pairs tcp"`
	From     yamlfile.OneOrMore[string] `yaml:"from" jsonschema_description:"sending hosts, with * and ? as wildcards"`
	To       yamlfile.OneOrMore[string] `yaml:"to" jsonschema_description:"receiving hosts, likewise; every sender sends to every receiver except itself"`
	Size     units.Bytes                `yaml:"size" jsonschema_description:"data of each flow; at least 1B"`
	At       units.Time                 `yaml:"at,omitempty" jsonschema_description:"time at which the flows start; default 0"`
	TCPFlows `yaml:",inline"`
}
