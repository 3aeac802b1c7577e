package labfile

import (
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire/roce"
)

// Transfer holds the keys of every entry of the workload with RDMA
// transfers.
type Transfer struct {
	Name    *string       `yaml:"name,omitempty" jsonschema_description:"name in records; default the posting host, then the other"`
	Size    units.Bytes   `yaml:"size" jsonschema_description:"size of a message, at most 2147483647B; for service ud at most the path MTU"`
	Count   *Messages     `yaml:"count,omitempty" jsonschema_description:"number of messages of each queue pair, or unlimited; default 1, or unlimited with for"`
	At      units.Time    `yaml:"at,omitempty" jsonschema_description:"time at which the first message is posted; default 0"`
	For     *units.Time   `yaml:"for,omitempty" jsonschema_description:"how long messages are posted; default until count is reached or the run ends"`
	Every   *units.Time   `yaml:"every,omitempty" jsonschema_description:"time between posting a queue pair's messages, which also wait for room in depth; default as soon as depth allows"`
	Depth   *MessageDepth `yaml:"depth,omitempty" jsonschema_description:"maximum number of posted but not completed messages of a queue pair; default 16"`
	QPs     *PairCount    `yaml:"qps,omitempty" jsonschema_description:"number of parallel queue pairs between the same two hosts; default 1"`
	Service *Service      `yaml:"service,omitempty" jsonschema_description:"transport service: rc; uc for write and send; ud for send; default rc"`
	MTU     *PathMTU      `yaml:"mtu,omitempty" jsonschema_description:"path MTU; default the smaller mtu of both NICs"`
	DSCP    *DSCP         `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default the DSCP of the posting host's NIC"`
	Flows   *bool         `yaml:"flow-per-message,omitempty" jsonschema_description:"whether each message is a separate flow, for which rate control starts afresh; depth is then 1; not for read; default false"`
	IP      *IPVersion    `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where both hosts have an IPv4 address, otherwise 6"`
}

// Pair is transfers from some hosts to others.
type Pair struct {
	From     yamlfile.OneOrMore[string] `yaml:"from" jsonschema_description:"hosts that post, with * and ? as wildcards"`
	To       yamlfile.OneOrMore[string] `yaml:"to" jsonschema_description:"their peers, likewise; every host under from has transfers with every host under to except itself"`
	Transfer `yaml:",inline"`
}

// Incast is transfers from many hosts to one.
type Incast struct {
	To       string                     `yaml:"to" jsonschema_description:"host that receives the data; with verb read it posts"`
	From     yamlfile.OneOrMore[string] `yaml:"from" jsonschema_description:"hosts that the data comes from, with * and ? as wildcards"`
	Verb     workload.Verb              `yaml:"verb,omitempty" jsonschema_description:"operation of the messages; default write"`
	Transfer `yaml:",inline"`
}

// Mesh is transfers among some hosts.
type Mesh struct {
	Hosts    yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that take part, with * and ? as wildcards; default all with a NIC"`
	Verb     workload.Verb              `yaml:"verb,omitempty" jsonschema_description:"operation of the messages; default write"`
	Transfer `yaml:",inline"`
}

const maxMessages = 1_000_000_000

// Messages is a number of messages; 0 means no limit.
type Messages int

// UnmarshalText reads a number from 1 to maxMessages, or unlimited.
func (m *Messages) UnmarshalText(b []byte) error {
	if string(b) == "unlimited" {
		*m = 0
		return nil
	}
	n, err := yamlfile.ParseInt(b, 1, maxMessages)
	if err != nil {
		return fmt.Errorf("%w, nor unlimited", err)
	}
	*m = Messages(n)
	return nil
}

func (Messages) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.IntegerSchema(1, maxMessages), {Const: "unlimited"}}}
}

// maxDepth is max_qp_wr of a ConnectX-5.
const maxDepth = 1 << 15

// MessageDepth is how many messages a queue pair has outstanding.
type MessageDepth int

// UnmarshalText reads a number from 1 to maxDepth.
func (d *MessageDepth) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxDepth)
	*d = MessageDepth(n)
	return err
}

func (MessageDepth) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, maxDepth)
}

// MaxPairs bounds the queue pairs of all transfers: max_qp of a ConnectX-5.
const MaxPairs = 1 << 18

// PairCount is a number of queue pairs.
type PairCount int

// UnmarshalText reads a number from 1 to MaxPairs.
func (c *PairCount) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, MaxPairs)
	*c = PairCount(n)
	return err
}

func (PairCount) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, MaxPairs)
}

// Service is a transport service.
type Service roce.Service

// UnmarshalText reads rc, uc or ud.
func (s *Service) UnmarshalText(b []byte) error {
	switch string(b) {
	case "rc":
		*s = Service(roce.RC)
	case "uc":
		*s = Service(roce.UC)
	case "ud":
		*s = Service(roce.UD)
	default:
		return fmt.Errorf("%q must be one of rc, uc, ud", b)
	}
	return nil
}

func (Service) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema("rc", "uc", "ud")
}
