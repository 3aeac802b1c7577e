package labfile

import (
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// Workload is a flow of packets, RDMA transfers, TCP flows, or a pattern of flows.
type Workload struct {
	yamlfile.OneKey `yaml:",inline"`
	CBR             *Constant `yaml:"cbr,omitempty" jsonschema_description:"packets at a constant rate"`
	Poisson         *Constant `yaml:"poisson,omitempty" jsonschema_description:"packets with exponential gaps"`
	OnOff           *OnOff    `yaml:"on-off,omitempty" jsonschema_description:"packets at a constant rate in phases, separated by silent phases"`
	Write           *Pair     `yaml:"write,omitempty" jsonschema_description:"RDMA WRITEs from hosts to hosts"`
	Read            *Pair     `yaml:"read,omitempty" jsonschema_description:"RDMA READs: the hosts under from read from the hosts under to"`
	Send            *Pair     `yaml:"send,omitempty" jsonschema_description:"SENDs from hosts to hosts"`
	Incast          *Incast   `yaml:"incast,omitempty" jsonschema_description:"RDMA data from many hosts to one"`
	Permutation     *Mesh     `yaml:"permutation,omitempty" jsonschema_description:"RDMA from every host to one other, in a permutation drawn from the seed: every host sends to one peer and receives from one"`
	AllToAll        *Mesh     `yaml:"all-to-all,omitempty" jsonschema_description:"RDMA from every host to every other"`
	TCP             *TCPPair  `yaml:"tcp,omitempty" jsonschema_description:"TCP flows from hosts to hosts, one for each pair"`

	Arrivals        *Arrivals        `yaml:"arrivals,omitempty" jsonschema_description:"flows at random times, independent of earlier flows: an offered load"`
	Requests        *Requests        `yaml:"requests,omitempty" jsonschema_description:"requests to several workers, which all answer: partition and aggregate, incast, remote procedure calls"`
	Bursts          *Bursts          `yaml:"bursts,omitempty" jsonschema_description:"bursts of flows one after the other, and silence between them"`
	FlowPermutation *FlowPermutation `yaml:"flow-permutation,omitempty" jsonschema_description:"flow after flow from every host to one other"`
	FlowAllToAll    *FlowAllToAll    `yaml:"flow-all-to-all,omitempty" jsonschema_description:"one flow from every host to every other"`
	Collective      *Collective      `yaml:"collective,omitempty" jsonschema_description:"collective communication, in iterations"`
	FlowList        *FlowList        `yaml:"flow-list,omitempty" jsonschema_description:"flows from another simulator's file"`
}

// Constant is a flow with a constant mean rate.
type Constant struct {
	Name *string                    `yaml:"name,omitempty" jsonschema_description:"name in records; default sender-receiver"`
	From yamlfile.OneOrMore[string] `yaml:"from" jsonschema_description:"sending hosts, with * and ? as wildcards"`
	To   yamlfile.OneOrMore[string] `yaml:"to" jsonschema_description:"receiving hosts, likewise; every sender sends to every receiver except itself"`
	Rate units.Rate                 `yaml:"rate" jsonschema_description:"rate of UDP payload while the flow sends"`
	Size units.Bytes                `yaml:"size" jsonschema_description:"UDP payload of each packet"`
	At   units.Time                 `yaml:"at,omitempty" jsonschema_description:"start time; default 0"`
	For  *units.Time                `yaml:"for,omitempty" jsonschema_description:"how long the flow sends; default until the run ends"`
	ECT  bool                       `yaml:"ect,omitempty" jsonschema_description:"whether packets are ECN-capable, ECT(0); default false"`
	DSCP DSCP                       `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default 0"`
	IP   *IPVersion                 `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where both hosts have an IPv4 address, otherwise 6"`
}

// OnOff is a flow that sends in phases.
type OnOff struct {
	Constant `yaml:",inline"`
	On       units.Time `yaml:"on" jsonschema_description:"mean length of the sending phases"`
	Off      units.Time `yaml:"off" jsonschema_description:"mean length of the silent phases"`
	Phases   Phases     `yaml:"phases,omitempty" jsonschema_description:"whether phases have a fixed length or one drawn from an exponential distribution; default fixed"`
}
