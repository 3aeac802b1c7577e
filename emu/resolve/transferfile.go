package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/yamlfile"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire/roce"
)

// transferFile holds the keys of every entry of the workload with RDMA
// transfers.
type transferFile struct {
	Name    *string       `yaml:"name,omitempty" jsonschema_description:"name in records; default the posting host, then the other"`
	Size    units.Bytes   `yaml:"size" jsonschema_description:"size of a message, at most 2147483647B; for service ud at most the path MTU"`
	Count   *messages     `yaml:"count,omitempty" jsonschema_description:"number of messages of each queue pair, or unlimited; default 1, or unlimited with for"`
	At      units.Time    `yaml:"at,omitempty" jsonschema_description:"time at which the first message is posted; default 0"`
	For     *units.Time   `yaml:"for,omitempty" jsonschema_description:"how long messages are posted; default until count is reached or the run ends"`
	Every   *units.Time   `yaml:"every,omitempty" jsonschema_description:"time between posting a queue pair's messages, which also wait for room in depth; default as soon as depth allows"`
	Depth   *messageDepth `yaml:"depth,omitempty" jsonschema_description:"maximum number of posted but not completed messages of a queue pair; default 16"`
	QPs     *pairCount    `yaml:"qps,omitempty" jsonschema_description:"number of parallel queue pairs between the same two hosts; default 1"`
	Service *service      `yaml:"service,omitempty" jsonschema_description:"transport service: rc; uc for write and send; ud for send; default rc"`
	MTU     *pathMTU      `yaml:"mtu,omitempty" jsonschema_description:"path MTU; default the smaller mtu of both NICs"`
	DSCP    *dscp         `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default the DSCP of the posting host's NIC"`
	Flows   *bool         `yaml:"flow-per-message,omitempty" jsonschema_description:"whether each message is a separate flow, for which rate control starts afresh; depth is then 1; not for read; default false"`
	IP      *ipVersion    `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where both hosts have an IPv4 address, otherwise 6"`
}

// pairFile is transfers from some hosts to others.
type pairFile struct {
	From         yamlfile.OneOrMore[string] `yaml:"from" jsonschema_description:"hosts that post, with * and ? as wildcards"`
	To           yamlfile.OneOrMore[string] `yaml:"to" jsonschema_description:"their peers, likewise; every host under from has transfers with every host under to except itself"`
	transferFile `yaml:",inline"`
}

// incastFile is transfers from many hosts to one.
type incastFile struct {
	To           string                     `yaml:"to" jsonschema_description:"host that receives the data; with verb read it posts"`
	From         yamlfile.OneOrMore[string] `yaml:"from" jsonschema_description:"hosts that the data comes from, with * and ? as wildcards"`
	Verb         workload.Verb              `yaml:"verb,omitempty" jsonschema_description:"operation of the messages; default write"`
	transferFile `yaml:",inline"`
}

// meshFile is transfers among some hosts.
type meshFile struct {
	Hosts        yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that take part, with * and ? as wildcards; default all with a NIC"`
	Verb         workload.Verb              `yaml:"verb,omitempty" jsonschema_description:"operation of the messages; default write"`
	transferFile `yaml:",inline"`
}

const maxMessages = 1_000_000_000

// messages is a number of messages; 0 means no limit.
type messages int

// UnmarshalText reads a number from 1 to maxMessages, or unlimited.
func (m *messages) UnmarshalText(b []byte) error {
	if string(b) == "unlimited" {
		*m = 0
		return nil
	}
	n, err := yamlfile.ParseInt(b, 1, maxMessages)
	if err != nil {
		return fmt.Errorf("%w, nor unlimited", err)
	}
	*m = messages(n)
	return nil
}

func (messages) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.Integer(1, maxMessages), {Const: "unlimited"}}}
}

// maxDepth is max_qp_wr of a ConnectX-5.
const maxDepth = 1 << 15

// messageDepth is how many messages a queue pair has outstanding.
type messageDepth int

// UnmarshalText reads a number from 1 to maxDepth.
func (d *messageDepth) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxDepth)
	*d = messageDepth(n)
	return err
}

func (messageDepth) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Integer(1, maxDepth)
}

// maxPairs bounds the queue pairs of all transfers: max_qp of a ConnectX-5.
const maxPairs = 1 << 18

// pairCount is a number of queue pairs.
type pairCount int

// UnmarshalText reads a number from 1 to maxPairs.
func (c *pairCount) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxPairs)
	*c = pairCount(n)
	return err
}

func (pairCount) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Integer(1, maxPairs)
}

// service is a transport service.
type service roce.Service

// UnmarshalText reads rc, uc or ud.
func (s *service) UnmarshalText(b []byte) error {
	switch string(b) {
	case "rc":
		*s = service(roce.RC)
	case "uc":
		*s = service(roce.UC)
	case "ud":
		*s = service(roce.UD)
	default:
		return fmt.Errorf("%q must be one of rc, uc, ud", b)
	}
	return nil
}

func (service) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum("rc", "uc", "ud")
}
