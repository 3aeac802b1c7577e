package resolve

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// patternFile holds the keys of every entry of the workload with a pattern of
// flows.
type patternFile struct {
	Name *string      `yaml:"name,omitempty" jsonschema_description:"name in records, which also seeds the pattern's random numbers; default the entry's key"`
	By   *carrierForm `yaml:"by,omitempty" jsonschema_description:"transport of the flows: rdma, tcp, ndp, udp, or one of them with settings; default rdma"`
}

func (f *patternFile) common() *patternFile { return f }

// spanFile is when flows are created.
type spanFile struct {
	Start units.Time  `yaml:"start,omitempty" jsonschema_description:"start time; default 0"`
	Stop  *units.Time `yaml:"stop,omitempty" jsonschema_description:"time from which no flow starts; default the end of the run or its window"`
}

// carrierForm is what carries flows: a word, or a mapping with settings.
type carrierForm struct{ Value carrierFile }

func (f *carrierForm) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	switch text, scalar := yamlfile.ScalarText(n); {
	case !scalar:
		r.Read(&f.Value, n, what)
	case text == "rdma":
		f.Value.RDMA = &rdmaFlowsFile{}
	case text == "tcp":
		f.Value.TCP = &tcpFlowsFile{}
	case text == "ndp":
		f.Value.NDP = &ndpFlowsFile{}
	case text == "udp":
		f.Value.UDP = &udpFlowsFile{}
	default:
		r.FailAt(n, "for settings write for example by: {udp: {rate: 1Gbps}}", "%s: %q must be one of rdma, tcp, ndp, udp", what, text)
	}
}

func (carrierForm) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.Enum("rdma", "tcp", "ndp", "udp"), m.Of(reflect.TypeFor[carrierFile]())}}
}

type carrierFile struct {
	yamlfile.OneKey `yaml:",inline"`
	RDMA            *rdmaFlowsFile `yaml:"rdma,omitempty" jsonschema_description:"reliable connections between NICs; rate control starts afresh for each flow"`
	TCP             *tcpFlowsFile  `yaml:"tcp,omitempty" jsonschema_description:"TCP connections, modelled at both ends; one for each flow"`
	NDP             *ndpFlowsFile  `yaml:"ndp,omitempty" jsonschema_description:"NDP connections, modelled at both ends: switches trim, receivers pull"`
	UDP             *udpFlowsFile  `yaml:"udp,omitempty" jsonschema_description:"datagrams at a fixed rate, without acknowledgements or retransmissions"`
}

// rdmaFlowsFile holds the settings of flows that use RDMA.
type rdmaFlowsFile struct {
	Verb  workload.Verb `yaml:"verb,omitempty" jsonschema_description:"operation of a flow's messages: write or send; default write"`
	MTU   *pathMTU      `yaml:"mtu,omitempty" jsonschema_description:"path MTU; default the smallest mtu of the hosts' NICs"`
	DSCP  *dscp         `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default the DSCP of the hosts' NICs"`
	Chunk *units.Bytes  `yaml:"chunk,omitempty" jsonschema_description:"largest message: a larger flow is sent as several; default 2147483647B"`
	IP    *ipVersion    `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where all hosts have an IPv4 address, otherwise 6"`
}

// udpFlowsFile holds the settings of flows that use UDP.
type udpFlowsFile struct {
	Rate *units.Rate  `yaml:"rate,omitempty" jsonschema_description:"rate of each flow on the wire; default the rate of the sender's link"`
	Size *units.Bytes `yaml:"size,omitempty" jsonschema_description:"UDP payload of each packet; default the largest that fits the mtu of the hosts' links"`
	ECT  bool         `yaml:"ect,omitempty" jsonschema_description:"whether packets are ECN-capable, ECT(0); default false"`
	DSCP dscp         `yaml:"dscp,omitempty" jsonschema_description:"DSCP of packets, 0 to 63; default 0"`
	IP   *ipVersion   `yaml:"ip,omitempty" jsonschema_description:"IP version; default 4 where all hosts have an IPv4 address, otherwise 6"`
}

// maxCount bounds counts in patterns.
const maxCount = 1_000_000_000

// amount is a count in a pattern.
type amount int

// UnmarshalText reads a number from 1 to maxCount.
func (c *amount) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxCount)
	*c = amount(n)
	return err
}

func (amount) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema { return yamlfile.Integer(1, maxCount) }

// lawForm is a law of times: a word, or a mapping with its parameter.
type lawForm struct {
	word  string
	Value lawFile
}

// lawWords are the laws without a parameter. The first two are the same.
var lawWords = []string{"poisson", "exponential", "constant"}

func (f *lawForm) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	text, scalar := yamlfile.ScalarText(n)
	if !scalar {
		r.Read(&f.Value, n, what)
		return
	}
	f.word = text
	for _, w := range lawWords {
		if w == text {
			return
		}
	}
	r.FailAt(n, "distributions with a parameter are {lognormal: 1.5} and {weibull: 0.7}", "%s: %q must be one of poisson, exponential, constant", what, text)
}

func (lawForm) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.Enum(lawWords...), m.Of(reflect.TypeFor[lawFile]())}}
}

type lawFile struct {
	yamlfile.OneKey `yaml:",inline"`
	Lognormal       *float64 `yaml:"lognormal,omitempty" jsonschema_description:"sigma of the logarithm, above 0 and at most 5"`
	Weibull         *float64 `yaml:"weibull,omitempty" jsonschema_description:"shape, 0.1 to 10; burstier than poisson below 1"`
}

// destinationsForm is where flows go: a word, or a mapping.
type destinationsForm struct {
	word  string
	Value destinationsFile
}

var destinationWords = []string{"random", "permutation"}

func (f *destinationsForm) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	text, scalar := yamlfile.ScalarText(n)
	switch {
	case !scalar:
		r.Read(&f.Value, n, what)
	case text != "random" && text != "permutation":
		r.FailAt(n, "for certain hosts write {hosts: [h1, h2]}", "%s: %q must be one of random, permutation", what, text)
	default:
		f.word = text
	}
}

func (destinationsForm) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.Enum(destinationWords...), m.Of(reflect.TypeFor[destinationsFile]())}}
}

type destinationsFile struct {
	yamlfile.OneKey `yaml:",inline"`
	Hosts           yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"any of these hosts except the sender, with * and ? as wildcards"`
	Stride          *amount                    `yaml:"stride,omitempty" jsonschema_description:"distance from the sender to its receiver in the list of hosts, which is treated as a ring"`
	Matrix          *matrixForm                `yaml:"matrix,omitempty" jsonschema_description:"load of each pair of hosts: a row for each sender and a column for each receiver, of which only ratios matter; a list of rows, or a file with a line of numbers for each row"`
}

// fileOr is a value, or a file that contains it.
type fileOr[T any] struct {
	file  *textFile
	value T
}

func (f *fileOr[T]) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	if _, scalar := yamlfile.ScalarText(n); scalar {
		r.Read(&f.file, n, what)
		return
	}
	r.Read(&f.value, n, what)
}

func (fileOr[T]) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, m.Of(reflect.TypeFor[T]())}}
}

// matrixForm is rows of numbers, or a file that contains them.
type matrixForm = fileOr[[][]float64]
