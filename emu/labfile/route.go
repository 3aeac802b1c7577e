package labfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// Reroute says when switches notice the state of links: after a time, or
// never.
type Reroute struct {
	Never bool
	RerouteTime
}

// RerouteTime is how long switches take to notice the state of links.
type RerouteTime struct {
	After units.Time `yaml:"after" jsonschema_description:"time from a link's change until all switches have new tables"`
}

func (f *Reroute) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, ok := yamlfile.ScalarText(n); ok && text == "never" {
		f.Never = true
		return
	}
	r.Read(&f.RerouteTime, n, what)
}

func (Reroute) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Const: "never"}, m.SchemaOf(reflect.TypeFor[RerouteTime]())}}
}

// RouteStep is the next hop of a route: for a host, the address of a gateway;
// for a switch, a port. It may be written as a single value.
type RouteStep struct {
	Plain bool
	WeightedPort
}

// WeightedPort is a RouteStep that is not a single value.
type WeightedPort struct {
	Port   PortName `yaml:"port" jsonschema_description:"port of the switch"`
	Weight Weight   `yaml:"weight,omitempty" jsonschema_description:"weight of the port relative to the others, 1 to 1000; default 1"`
}

// PortName is the name of a port, which is often a number.
type PortName yamlfile.Scalar

func (p *PortName) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	(*yamlfile.Scalar)(p).DecodeNode(r, n, what)
}

func (s *RouteStep) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	s.Weight = 1
	if text, ok := yamlfile.ScalarText(n); ok {
		s.Port, s.Plain = PortName(text), true
		return
	}
	r.Read(&s.WeightedPort, n, what)
}

func (RouteStep) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{m.SchemaOf(reflect.TypeFor[PortName]()), m.SchemaOf(reflect.TypeFor[WeightedPort]())}}
}
