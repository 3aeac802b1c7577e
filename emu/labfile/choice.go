package labfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/suggest"
	_ "github.com/weftlab/weft/emu/systems" // so that a file can name them
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
)

// system is what a file needs to know about a registered system.
type system struct {
	summary string
	presets []string   // the default first; nil if there is only one set of parameters
	blank   func() any // returns a pointer to its settings, with nothing set
	// check returns what is wrong with settings that the file sets over a preset, independent
	// of their use. It is nil if errors show only where the settings are used.
	check func(preset string, set func(settings any)) error
	// example is how a file writes the system if it has required keys: "{flowlet: {gap:
	// 100us}}"; "" means the example of the seam.
	example string
}

// seam is a registry whose systems a file can name.
type seam interface {
	oneOf() string   // "a rate control"
	example() string // how to write one: "cc: dcqcn, or cc: {dcqcn: {preset: paper}}"
	names() []string
	optional() bool // whether a file can say none
	find(name string) (system, error)
}

// Choice is the value of a key that names a system of a seam: none, a name, or a name with
// settings, as in {dcqcn: {preset: paper, rpg_gd: 10}}.
type Choice[S seam] struct {
	Name   string // "" means none
	Preset *string
	Values any // settings; those that are set in the file have places
}

// words returns the values that are a single word.
func (Choice[S]) words() []string {
	var s S
	if s.optional() {
		return append(s.names(), "none")
	}
	return s.names()
}

func (f *Choice[S]) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	var s S
	if name, scalar := yamlfile.ScalarText(n); scalar {
		switch found, err := s.find(name); {
		case name == "none" && s.optional():
		case err == nil && found.example != "":
			lacks := required(reflect.TypeOf(found.blank()).Elem())
			r.FailAt(n, "write for example "+what+": "+found.example, "%s lacks %s", name, strings.Join(lacks, ", "))
		default:
			f.choose(r, n, name, &ast.NullNode{BaseNode: &ast.BaseNode{}, Token: n.GetToken()})
		}
		return
	}
	entries, ok := r.Entries(n)
	switch {
	case !ok:
		r.Wrong(n, what, "the name of "+s.oneOf()+", or a name with settings", "write for example "+s.example())
		return
	case len(entries) != 1:
		r.FailAt(n, "write for example "+s.example(), "%s must have one key, not %d", what, len(entries))
		return
	}
	f.choose(r, entries[0].At, entries[0].Key, entries[0].Value)
}

// choose makes f the named system with the settings in a node.
func (f *Choice[S]) choose(r *yamlfile.Reader, at ast.Node, name string, settings ast.Node) {
	var s S
	found, err := s.find(name)
	if err != nil {
		r.FailAt(at, suggest.Hint(name, "known are", f.words()), "%q is not %s", name, s.oneOf())
		return
	}
	f.Name, f.Values = name, found.blank()
	before := r.Faults()
	var extra map[string]any
	if found.presets != nil {
		f.Preset = new(string)
		extra = map[string]any{"preset": f.Preset}
	}
	if settings = r.Resolve(settings); settings != nil {
		r.ReadFields(reflect.ValueOf(f.Values).Elem(), settings, name, extra)
	}
	if f.Preset != nil && r.Place(f.Preset) == nil {
		f.Preset = nil
	}
	if f.Preset != nil && !slices.Contains(found.presets, *f.Preset) {
		r.Fail(f.Preset, "", "%q is not a preset of %s (known are %s)", *f.Preset, name, strings.Join(found.presets, ", "))
		f.Preset = nil
	}
	if found.check != nil && r.Faults() == before {
		err := found.check(f.PresetOf(), func(settings any) { Overlay(r, settings, f.Values) })
		ReportSettings(r, name, f.Values, err, f.Preset, f)
	}
}

func (f Choice[S]) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	var s S
	alone := slices.DeleteFunc(f.words(), func(name string) bool {
		found, err := s.find(name)
		return err == nil && len(required(reflect.TypeOf(found.blank()).Elem())) > 0
	})
	all := &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.Enum(alone...)}}
	for _, name := range s.names() {
		found, _ := s.find(name)
		settings := m.Of(reflect.TypeOf(found.blank()).Elem())
		if d := m.Definition(settings); d != nil && found.presets != nil {
			preset := yamlfile.Enum(found.presets...)
			preset.Description = "preset for parameters that are not set here; default " + found.presets[0]
			d.Properties.Set("preset", preset)
		}
		one := &jsonschema.Schema{Type: "object", Description: found.summary, Properties: jsonschema.NewProperties(), Required: []string{name}}
		one.AdditionalProperties = jsonschema.FalseSchema
		one.Properties.Set(name, settings)
		all.OneOf = append(all.OneOf, one)
	}
	return all
}

// Keys returns the names of the systems of a seam and the types of their settings, for callers
// that need every key of a file.
func (f Choice[S]) Keys() (names []string, settings []reflect.Type) {
	var s S
	for _, name := range s.names() {
		found, _ := s.find(name)
		settings = append(settings, reflect.TypeOf(found.blank()).Elem())
	}
	return s.names(), settings
}

// Join returns f with missing keys taken from base, if both are the same system.
func (f *Choice[S]) Join(r *yamlfile.Reader, base *Choice[S]) *Choice[S] {
	if f == nil || base == nil || f.Name != base.Name || f.Name == "" {
		if f == nil {
			return base
		}
		return f
	}
	var s S
	found, _ := s.find(f.Name)
	joined := &Choice[S]{Name: f.Name, Preset: f.Preset, Values: found.blank()}
	if joined.Preset == nil {
		joined.Preset = base.Preset
	}
	Overlay(r, joined.Values, base.Values)
	Overlay(r, joined.Values, f.Values)
	r.SetPlace(joined, r.Place(f))
	return joined
}

// PresetOf returns the preset that f names, or the default; "" for a system without presets.
func (f *Choice[S]) PresetOf() string {
	var s S
	found, err := s.find(f.Name)
	switch {
	case f.Preset != nil:
		return *f.Preset
	case err != nil || found.presets == nil:
		return ""
	}
	return found.presets[0]
}

// required returns the keys of a type that a file must contain.
func required(t reflect.Type) (keys []string) {
	for _, f := range yamlfile.FieldsOf(t) {
		if f.Required {
			keys = append(keys, f.Name)
		}
	}
	return keys
}

// Overlay copies the parameters of from that are set in the file to to, with their places. Both
// are settings of one system.
func Overlay(r *yamlfile.Reader, to, from any) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, f := range yamlfile.FieldsOf(a.Type()) {
		value := b.FieldByIndex(f.Index)
		if at := r.Place(value.Addr().Interface()); at != nil {
			a.FieldByIndex(f.Index).Set(value)
			place := a.FieldByIndex(f.Index).Addr().Interface()
			r.SetPlace(place, at)
			if c, ok := place.(*cc.Choice); ok {
				keepControl(r, c, ControlOf(r, value.Addr().Interface().(*cc.Choice)).Join(r, ControlOf(r, c)))
			}
		}
	}
}

// readControl reads a rate control that is a setting of another system. It can be resolved only
// when the rate of the link is known.
func readControl(r *yamlfile.Reader, c *cc.Choice, n ast.Node, what string) {
	f := &Control{}
	r.SetPlace(f, n)
	f.Decode(r, n, what)
	keepControl(r, c, f)
}

// keepControl stores what the file says about a rate control that is a setting of another
// system.
func keepControl(r *yamlfile.Reader, c *cc.Choice, f *Control) { r.Keep(c, f) }

// ControlOf returns what keepControl stored, or nil.
func ControlOf(r *yamlfile.Reader, c *cc.Choice) *Control {
	f, _ := r.Kept(c).(*Control)
	return f
}

// ReportSettings reports what is wrong with the settings of a system: at the parameter, or at the
// first of places that is in the file.
func ReportSettings(r *yamlfile.Reader, name string, settings any, err error, places ...any) {
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
			r.Fail(r.Some(append([]any{parameter(settings, bad.Key)}, places...)...), "give "+bad.Fix, "%s: %v is out of range", bad.Key, bad.Value)
		} else if errors.As(err, &unfit) {
			r.Fail(r.Some(append([]any{parameter(settings, unfit.Key)}, places...)...), unfit.Fix, "%s", unfit.Why)
		} else {
			r.Fail(r.Some(places...), "", "%s: %v", name, err)
		}
	}
}

// parameter returns a pointer to the parameter of settings with the given key.
func parameter(settings any, key string) any {
	v := reflect.ValueOf(settings).Elem()
	for _, f := range yamlfile.FieldsOf(v.Type()) {
		if f.Name != key {
			continue
		}
		if p := v.FieldByIndex(f.Index); p.Kind() == reflect.Pointer {
			return p.Interface() // an optional parameter: the place belongs to what it points to
		}
		return v.FieldByIndex(f.Index).Addr().Interface()
	}
	return nil
}
