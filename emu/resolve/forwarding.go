package resolve

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/weftlab/weft/emu/yamlfile"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/forward"
)

// choices is the seam for choosing among next hops.
type choices struct{}

// forwardingFile is the value of the key forwarding.
type forwardingFile = systemFile[choices]

func (choices) oneOf() string   { return forward.Kinds.OneOf() }
func (choices) example() string { return "forwarding: random, or forwarding: {flowlet: {gap: 100us}}" }
func (choices) names() []string { return forward.Kinds.Names() }
func (choices) optional() bool  { return false }

func (choices) find(name string) (system, error) {
	k, err := forward.Kinds.Find(name)
	if err != nil {
		return system{}, err
	}
	return system{
		summary: k.Summary,
		blank:   func() any { return blank(k.Settings()) },
		check: func(_ string, set func(any)) error {
			settings := k.Settings()
			set(settings)
			return settings.Validate()
		},
		example: k.Example,
	}, nil
}

// forwarding resolves how a switch chooses among next hops.
func (v *resolver) forwarding(n *plan.Node, file *nodeFile) {
	f := cmp.Or(file.Forwarding, v.lab.Topology.Kinds.Switch.Forwarding)
	name := forward.Default
	if f != nil && f.name != "" {
		name = f.name
	}
	k, _ := forward.Kinds.Find(name)
	settings := k.Settings()
	if f != nil && f.values != nil {
		overlay(v.Reader, settings, f.values)
	}
	n.Forwarding = forward.Config{Name: name, Settings: settings}
}

// rerouteFile says when switches notice the state of links: after a time, or
// never.
type rerouteFile struct {
	never bool
	rerouteTime
}

type rerouteTime struct {
	After units.Time `yaml:"after" jsonschema_description:"time from a link's change until all switches have new tables"`
}

func (f *rerouteFile) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, ok := yamlfile.ScalarText(n); ok && text == "never" {
		f.never = true
		return
	}
	r.Read(&f.rerouteTime, n, what)
}

func (rerouteFile) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Const: "never"}, m.Of(reflect.TypeFor[rerouteTime]())}}
}

// reroute resolves when switches notice the state of links.
func (v *resolver) reroute() {
	v.plan.Reroute = units.Never
	f := v.lab.Topology.Reroute
	if f == nil {
		return
	}
	if f.never {
		return
	}
	v.plan.Reroute = f.After
	v.checkTime(&f.After, "after", maxTime)
	if !slices.ContainsFunc(v.plan.Nodes, func(n plan.Node) bool { return n.Kind == plan.Switch }) {
		v.Fail(f, "", "reroute has no effect: the lab has no switch")
	}
}
