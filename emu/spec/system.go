package spec

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/suggest"
	_ "github.com/weftlab/weft/emu/systems" // so that a file can name them
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
)

// system is what a file has to know of a registered system.
type system struct {
	summary string
	presets []string   // the default first; nil where there is one set of parameters only
	blank   func() any // a pointer to its settings, in which nothing is set
	// check gives what is wrong with settings whatever they are used for, for those that
	// the file sets over a preset; nil if that shows only where they are used.
	check func(preset string, set func(settings any)) error
	// example is how a file writes it if it has keys that must be there:
	// "{flowlet: {gap: 100us}}"; "" for that of the seam.
	example string
}

// seam is a registry whose systems a file can name.
type seam interface {
	oneOf() string   // "a rate control"
	example() string // how one is written: "cc: dcqcn, or cc: {dcqcn: {preset: paper}}"
	names() []string
	optional() bool // whether a file can say none
	find(name string) (system, error)
}

// systemFile is what stands behind a key that names a system of a seam: none, its name, or
// its name with settings, as in {dcqcn: {preset: paper, rpg_gd: 10}}.
type systemFile[S seam] struct {
	name   string // "" is none
	preset *string
	values any // settings, of which those that stand in the file have places
}

// words are what a file can say in one word.
func (systemFile[S]) words() []string {
	var s S
	if s.optional() {
		return append(s.names(), "none")
	}
	return s.names()
}

func (f *systemFile[S]) decode(r *reader, n ast.Node, what string) {
	var s S
	if name, scalar := scalarText(n); scalar {
		switch found, err := s.find(name); {
		case name == "none" && s.optional():
		case err == nil && found.example != "":
			lacks := required(reflect.TypeOf(found.blank()).Elem())
			r.failAt(n, "write for example "+what+": "+found.example, "%s lacks %s", name, strings.Join(lacks, ", "))
		default:
			f.choose(r, n, name, &ast.NullNode{BaseNode: &ast.BaseNode{}, Token: n.GetToken()})
		}
		return
	}
	entries, ok := r.entries(n)
	switch {
	case !ok:
		r.wrong(n, what, "the name of "+s.oneOf()+", or one with its settings", "write for example "+s.example())
		return
	case len(entries) != 1:
		r.failAt(n, "write for example "+s.example(), "%s has %d keys, not one", what, len(entries))
		return
	}
	f.choose(r, entries[0].at, entries[0].key, entries[0].value)
}

// choose makes f the system of a name, with the settings of a node.
func (f *systemFile[S]) choose(r *reader, at ast.Node, name string, settings ast.Node) {
	var s S
	found, err := s.find(name)
	if err != nil {
		r.failAt(at, suggest.Hint(name, "there are", f.words()), "%q is not %s", name, s.oneOf())
		return
	}
	f.name, f.values = name, found.blank()
	before := len(r.errs)
	var extra map[string]any
	if found.presets != nil {
		f.preset = new(string)
		extra = map[string]any{"preset": f.preset}
	}
	if settings = r.resolve(settings); settings != nil {
		r.readFields(reflect.ValueOf(f.values).Elem(), settings, name, extra)
	}
	if f.preset != nil && r.places[f.preset] == nil {
		f.preset = nil
	}
	if f.preset != nil && !slices.Contains(found.presets, *f.preset) {
		r.fail(f.preset, "", "%q is not a preset of %s (there are %s)", *f.preset, name, strings.Join(found.presets, ", "))
		f.preset = nil
	}
	if found.check != nil && len(r.errs) == before {
		err := found.check(f.presetOf(), func(settings any) { overlay(r, settings, f.values) })
		r.report(name, f.values, err, f.preset, f)
	}
}

func (f systemFile[S]) schema(m *schemaMaker) *jsonschema.Schema {
	var s S
	alone := slices.DeleteFunc(f.words(), func(name string) bool {
		found, err := s.find(name)
		return err == nil && len(required(reflect.TypeOf(found.blank()).Elem())) > 0
	})
	all := &jsonschema.Schema{OneOf: []*jsonschema.Schema{enum(alone...)}}
	for _, name := range s.names() {
		found, _ := s.find(name)
		settings := m.of(reflect.TypeOf(found.blank()).Elem())
		if d := m.definition(settings); d != nil && found.presets != nil {
			preset := enum(found.presets...)
			preset.Description = "whose parameters hold where none stands here; default " + found.presets[0]
			d.Properties.Set("preset", preset)
		}
		one := &jsonschema.Schema{Type: "object", Description: found.summary, Properties: jsonschema.NewProperties(), Required: []string{name}}
		one.AdditionalProperties = jsonschema.FalseSchema
		one.Properties.Set(name, settings)
		all.OneOf = append(all.OneOf, one)
	}
	return all
}

// keys gives the names of the systems of a seam, and the types of their settings, for
// whoever wants to know every key of a file.
func (f systemFile[S]) keys() (names []string, settings []reflect.Type) {
	var s S
	for _, name := range s.names() {
		found, _ := s.find(name)
		settings = append(settings, reflect.TypeOf(found.blank()).Elem())
	}
	return s.names(), settings
}

// join gives f with what it leaves out taken from base, if that is the same system.
func (f *systemFile[S]) join(r *reader, base *systemFile[S]) *systemFile[S] {
	if f == nil || base == nil || f.name != base.name || f.name == "" {
		if f == nil {
			return base
		}
		return f
	}
	var s S
	found, _ := s.find(f.name)
	joined := &systemFile[S]{name: f.name, preset: f.preset, values: found.blank()}
	if joined.preset == nil {
		joined.preset = base.preset
	}
	overlay(r, joined.values, base.values)
	overlay(r, joined.values, f.values)
	r.places[joined] = r.places[f]
	return joined
}

// presetOf is the preset that f names, or the default; "" for a system without presets.
func (f *systemFile[S]) presetOf() string {
	var s S
	found, err := s.find(f.name)
	switch {
	case f.preset != nil:
		return *f.preset
	case err != nil || found.presets == nil:
		return ""
	}
	return found.presets[0]
}

// required are the keys of a type that must be in a file.
func required(t reflect.Type) (keys []string) {
	for _, f := range fieldsOf(t) {
		if f.required {
			keys = append(keys, f.name)
		}
	}
	return keys
}

// overlay sets those parameters in to that stand in the file as from, and gives
// them their places. Both are settings of one system.
func overlay(r *reader, to, from any) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, f := range fieldsOf(a.Type()) {
		value := b.FieldByIndex(f.index)
		if at := r.places[value.Addr().Interface()]; at != nil {
			a.FieldByIndex(f.index).Set(value)
			place := a.FieldByIndex(f.index).Addr().Interface()
			r.places[place] = at
			if c, ok := place.(*cc.Choice); ok {
				r.inner[c] = r.inner[value.Addr().Interface().(*cc.Choice)].join(r, r.inner[c])
			}
		}
	}
}

// readControl reads a rate control that is one of the settings of another system. What it
// becomes shows where the rate of the link is known.
func (r *reader) readControl(c *cc.Choice, n ast.Node, what string) {
	f := &controlFile{}
	r.places[f] = n
	f.decode(r, n, what)
	r.inner[c] = f
}

// report reports what is wrong with the settings of a system: at the parameter, or at the
// first of places that stands in the file.
func (r *reader) report(name string, settings any, err error, places ...any) {
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var bad *registry.RangeError
		var unfit *registry.UnfitError
		if errors.As(err, &bad) {
			r.fail(r.some(append([]any{parameter(settings, bad.Key)}, places...)...), "give "+bad.Fix, "%s: %v is out of range", bad.Key, bad.Value)
		} else if errors.As(err, &unfit) {
			r.fail(r.some(append([]any{parameter(settings, unfit.Key)}, places...)...), unfit.Fix, "%s", unfit.Why)
		} else {
			r.fail(r.some(places...), "", "%s: %v", name, err)
		}
	}
}

// parameter points to the parameter of settings that goes by key.
func parameter(settings any, key string) any {
	v := reflect.ValueOf(settings).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if f.name == key {
			return v.FieldByIndex(f.index).Addr().Interface()
		}
	}
	return nil
}
