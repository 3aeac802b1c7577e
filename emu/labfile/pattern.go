package labfile

import (
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// Arrivals configures flows that arrive at random times.
type Arrivals struct {
	Pattern `yaml:",inline"`
	Hosts   yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that send, with * and ? as wildcards; default all, by rdma all with a NIC"`
	To      *DestinationsForm          `yaml:"to,omitempty" jsonschema_description:"receivers: random draws another of hosts for each flow, permutation draws one for the whole run; default random"`
	Load    *units.Fraction            `yaml:"load,omitempty" jsonschema_description:"payload that all senders together offer, as a share of the sum of their capacities (of)"`
	Of      *units.Rate                `yaml:"of,omitempty" jsonschema_description:"capacity of each sender to which load refers; default the rate of its link"`
	Rate    *units.Rate                `yaml:"rate,omitempty" jsonschema_description:"in place of load: mean payload rate of each sender"`
	Sizes   SizesForm                  `yaml:"sizes" jsonschema_description:"sizes of flows: a name such as websearch, a size, or a distribution"`
	Gaps    *LawForm                   `yaml:"gaps,omitempty" jsonschema_description:"distribution of the times between a sender's flows; default poisson"`
	Span    `yaml:",inline"`
	Count   *Amount `yaml:"count,omitempty" jsonschema_description:"total number of flows; default no limit"`
}

// Bursts configures bursts of flows with silence between them.
type Bursts struct {
	Pattern `yaml:",inline"`
	Hosts   yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that send, with * and ? as wildcards; default all, by rdma all with a NIC"`
	To      *DestinationsForm          `yaml:"to,omitempty" jsonschema_description:"receivers: random draws another of hosts for each burst, permutation draws one for the whole run; default random"`
	Sizes   SizesForm                  `yaml:"sizes" jsonschema_description:"sizes of flows: a name such as websearch, a size, or a distribution"`
	Burst   *Amount                    `yaml:"burst,omitempty" jsonschema_description:"number of flows in a burst, one after the other"`
	On      *units.Time                `yaml:"on,omitempty" jsonschema_description:"in place of burst: mean duration of a burst"`
	Off     units.Time                 `yaml:"off" jsonschema_description:"mean time of silence before a burst"`
	Phases  *LawForm                   `yaml:"phases,omitempty" jsonschema_description:"distribution of on and off; default exponential"`
	Span    `yaml:",inline"`
}

// FlowList is flows listed in a file of another simulator.
type FlowList struct {
	Pattern `yaml:",inline"`
	HPCC    *TextFile                  `yaml:"hpcc,omitempty" jsonschema_description:"flow file of HPCC's simulator"`
	Htsim   *TextFile                  `yaml:"htsim,omitempty" jsonschema_description:"connection matrix of htsim, with its triggers"`
	Hosts   yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that the file's numbers refer to, from 0, with * and ? as wildcards; default all hosts in the lab's order, by rdma all with a NIC"`
	Offset  *units.Time                `yaml:"offset,omitempty" jsonschema_description:"time added to the file's times; may be negative; default 0"`
}

// Pattern holds the keys of every entry of the workload with a pattern of
// flows.
type Pattern struct {
	Name        *string      `yaml:"name,omitempty" jsonschema_description:"name in records, which also seeds the pattern's random numbers; default the entry's key"`
	By          *CarrierForm `yaml:"by,omitempty" jsonschema_description:"transport of the flows: rdma, tcp, ndp, udp, or one of them with settings; default rdma"`
	Connections *Connections `yaml:"connections,omitempty" jsonschema_description:"per-pair: the flows from one host to another share a queue pair and its rate control, which outlive them; only by rdma. Default per-flow: each flow begins anew"`
}

// Connections says which flows of a pattern use the same connection.
type Connections uint8

// The values of Connections.
const (
	PerFlow Connections = iota
	PerPair
)

var connectionsNames = []string{"per-flow", "per-pair"}

// UnmarshalText reads one of connectionsNames.
func (c *Connections) UnmarshalText(b []byte) error { return unmarshalName(c, b, connectionsNames) }

func (Connections) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(connectionsNames...)
}

// Span is when flows are created.
type Span struct {
	Start units.Time  `yaml:"start,omitempty" jsonschema_description:"start time; default 0"`
	Stop  *units.Time `yaml:"stop,omitempty" jsonschema_description:"time from which no flow starts; default the end of the run or its window"`
}

// Requests configures partition-aggregate, incast, and request-response
// traffic.
type Requests struct {
	Pattern     `yaml:",inline"`
	Aggregators yamlfile.OneOrMore[string] `yaml:"aggregators,omitempty" jsonschema_description:"hosts that send requests, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Workers     yamlfile.OneOrMore[string] `yaml:"workers,omitempty" jsonschema_description:"hosts that answer, likewise; no host is its own worker; default all"`
	Fanout      *Amount                    `yaml:"fanout,omitempty" jsonschema_description:"number of workers of a request, drawn at random for each; default all"`
	Request     *SizesForm                 `yaml:"request,omitempty" jsonschema_description:"sizes of the message to each worker; default none if every is set: workers then answer at the times of the requests"`
	Response    *SizesForm                 `yaml:"response,omitempty" jsonschema_description:"sizes of each worker's answer"`
	Total       *SizesForm                 `yaml:"total,omitempty" jsonschema_description:"in place of response: total size of the answers to a request, divided equally among the workers"`
	Every       *units.Time                `yaml:"every,omitempty" jsonschema_description:"mean time between the requests of an aggregator, which do not wait for answers; default a closed loop: the next request follows the last answer"`
	Roaming     bool                       `yaml:"roaming,omitempty" jsonschema_description:"with every: one process makes all requests and draws an aggregator for each; default false"`
	Think       *units.Time                `yaml:"think,omitempty" jsonschema_description:"closed loop: mean time from the last answer to the next request; default 0"`
	Outstanding *Amount                    `yaml:"outstanding,omitempty" jsonschema_description:"closed loop: outstanding requests of an aggregator; default 1"`
	Times       *LawForm                   `yaml:"times,omitempty" jsonschema_description:"distribution of every or think; default constant"`
	Span        `yaml:",inline"`
	Count       *Amount `yaml:"count,omitempty" jsonschema_description:"requests of each aggregator, or of all together if roaming; default no limit"`
}

// FlowPermutation is consecutive flows from each host to one other.
type FlowPermutation struct {
	Pattern `yaml:",inline"`
	Hosts   yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that take part, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Stride  *Amount                    `yaml:"stride,omitempty" jsonschema_description:"distance from a host to its partner in the list of hosts, which is treated as a ring; default a permutation drawn from the seed"`
	Sizes   SizesForm                  `yaml:"sizes" jsonschema_description:"sizes of flows: a name such as websearch, a size, or a distribution"`
	Count   *Amount                    `yaml:"count,omitempty" jsonschema_description:"number of flows of each host, one after the other; default no limit"`
	Span    `yaml:",inline"`
}

// FlowAllToAll is one flow from each host to every other.
type FlowAllToAll struct {
	Pattern `yaml:",inline"`
	Hosts   yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that take part, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Sizes   SizesForm                  `yaml:"sizes" jsonschema_description:"sizes of flows: a name such as websearch, a size, or a distribution"`
	Window  *Amount                    `yaml:"window,omitempty" jsonschema_description:"maximum number of concurrent flows of a host; default all"`
	Start   units.Time                 `yaml:"start,omitempty" jsonschema_description:"start time; default 0"`
}

// Collective configures collective communication.
type Collective struct {
	Pattern    `yaml:",inline"`
	Operation  Operation                  `yaml:"operation" jsonschema_description:"operation: all-reduce, reduce-scatter and all-gather on a ring, all-to-all in rounds"`
	Hosts      yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"ranks in the order of the ring, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Size       units.Bytes                `yaml:"size" jsonschema_description:"size of each rank's buffer; at least 1B for each rank"`
	Iterations *Amount                    `yaml:"iterations,omitempty" jsonschema_description:"number of iterations; default no limit"`
	Compute    *units.Time                `yaml:"compute,omitempty" jsonschema_description:"mean time between the end of a rank's iteration and its next one; default 0"`
	Computing  *LawForm                   `yaml:"computing,omitempty" jsonschema_description:"distribution of compute, drawn by each rank; default constant"`
	Span       `yaml:",inline"`
}

// Operation is a collective operation.
type Operation pattern.Operation

var operationNames = []string{"all-reduce", "reduce-scatter", "all-gather", "all-to-all"}

// UnmarshalText reads one of operationNames.
func (o *Operation) UnmarshalText(b []byte) error { return unmarshalName(o, b, operationNames) }

func (Operation) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(operationNames...)
}
