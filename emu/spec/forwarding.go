package spec

import (
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/forward"
)

// forwardingFile is how a switch chooses among ways: one word, or one key with
// numbers.
type forwardingFile struct {
	Spread forward.Spread
	pathChoice
}

// pathChoice is a forwardingFile that is not one word.
type pathChoice struct {
	oneKey  `yaml:",inline"`
	Flowlet *forward.Flowlet `yaml:"flowlet,omitempty" jsonschema_description:"a flow keeps its way until it pauses"`
	Entropy *forward.Entropy `yaml:"entropy,omitempty" jsonschema_description:"the source chooses by a field of the header"`
}

func (f *forwardingFile) decode(r *reader, n ast.Node, what string) {
	switch text, ok := scalarText(n); {
	case ok && text == "flowlet":
		r.failAt(n, "write for example "+what+": {flowlet: {gap: 100us}}", "flowlet needs the gap that ends one")
		return
	case ok && text == "entropy":
		r.failAt(n, "write for example "+what+": {entropy: {field: udp-source-port}}", "entropy needs the field of the header that it is in")
		return
	case ok:
		r.readText(&f.Spread, n, what)
		return
	}
	before := len(r.errs)
	r.read(&f.pathChoice, n, what)
	if f.Flowlet == nil || len(r.errs) > before {
		return
	}
	if gap := f.Flowlet.Gap; gap <= 0 || gap > maxTime {
		r.fail(&f.Flowlet.Gap, "without a gap every packet is a flowlet: that is "+what+": random", "gap %v is not above 0s and at most %v", gap, maxTime)
	}
}

func (forwardingFile) schema(m *schemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{scalarSchema(reflect.TypeFor[forward.Spread]()), m.of(reflect.TypeFor[pathChoice]())}}
}

// forwarding resolves how a switch chooses among ways.
func (v *resolver) forwarding(n *Node, file *nodeFile) {
	for _, f := range []*forwardingFile{v.lab.Topology.Kinds.Switch.Forwarding, file.Forwarding} {
		if f != nil {
			n.Forwarding = forward.Config{Spread: f.Spread, Flowlet: f.Flowlet, Entropy: f.Entropy}
		}
	}
}

// rerouteFile says when switches take notice of the state of links: after a
// time, or never.
type rerouteFile struct {
	never bool
	rerouteTime
}

type rerouteTime struct {
	After units.Time `yaml:"after" jsonschema_description:"time from a link's change to new tables at all switches"`
}

func (f *rerouteFile) decode(r *reader, n ast.Node, what string) {
	if text, ok := scalarText(n); ok && text == "never" {
		f.never = true
		return
	}
	r.read(&f.rerouteTime, n, what)
}

func (rerouteFile) schema(m *schemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Const: "never"}, m.of(reflect.TypeFor[rerouteTime]())}}
}

// reroute resolves when switches take notice of the state of links.
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
	if !slices.ContainsFunc(v.plan.Nodes, func(n Node) bool { return n.Kind == Switch }) {
		v.fail(f, "", "reroute has no effect: the lab has no switch")
	}
}
