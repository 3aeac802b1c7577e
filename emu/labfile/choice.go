package labfile

import (
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
)

// extensionPoint is a set of systems of which a file can name one.
type extensionPoint interface{ knownKinds() kinds }

// Choice is the value of a key that names a system of an extension point: none, a name, or a name with
// settings, as in {dcqcn: {preset: paper, rpg_gd: 10}}.
type Choice[S extensionPoint] struct {
	Name   string // "" means none
	Preset *string
	Values any // settings; those that are set in the file have places
}

// singleWords returns the values that are a single word.
func (Choice[S]) singleWords() []string {
	var point S
	s := point.knownKinds()
	if s.optional {
		return append(s.names(), "none")
	}
	return s.names()
}

func (f *Choice[S]) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	var point S
	s := point.knownKinds()
	if name, scalar := yamlfile.ScalarText(n); scalar {
		switch found, err := s.find(name); {
		case name == "none" && s.optional:
		case err == nil && found.example != "":
			lacks := requiredKeys(reflect.TypeOf(found.blank()).Elem())
			r.FailAt(n, "write for example "+what+": "+found.example, "%s lacks %s", name, strings.Join(lacks, ", "))
		default:
			f.chooseSystem(r, n, name, &ast.NullNode{BaseNode: &ast.BaseNode{}, Token: n.GetToken()})
		}
		return
	}
	entries, ok := r.Entries(n)
	switch {
	case !ok:
		r.ReportKind(n, what, "the name of "+s.oneOf+", or a name with settings", "write for example "+s.example)
		return
	case len(entries) != 1:
		r.FailAt(n, "write for example "+s.example, "%s must have one key, not %d", what, len(entries))
		return
	}
	f.chooseSystem(r, entries[0].At, entries[0].Key, entries[0].Value)
}

// chooseSystem makes f the named system with the settings in a node.
func (f *Choice[S]) chooseSystem(r *yamlfile.Reader, at ast.Node, name string, settings ast.Node) {
	var point S
	s := point.knownKinds()
	found, err := s.find(name)
	if err != nil {
		r.FailAt(at, suggest.Hint(name, "known are", f.singleWords()), "%q is not %s", name, s.oneOf)
		return
	}
	f.Name, f.Values = name, found.blank()
	before := r.Faults()
	var extra map[string]any
	if found.presets != nil {
		f.Preset = new(string)
		extra = map[string]any{"preset": f.Preset}
	}
	if settings = r.ResolveNode(settings); settings != nil {
		r.ReadFields(reflect.ValueOf(f.Values).Elem(), settings, name, extra)
	}
	if f.Preset != nil && r.Place(f.Preset) == nil {
		f.Preset = nil
	}
	if f.Preset != nil && !slices.Contains(found.presets, *f.Preset) {
		r.ReportFault(f.Preset, "", "%q is not a preset of %s (known are %s)", *f.Preset, name, strings.Join(found.presets, ", "))
		f.Preset = nil
	}
	if found.check != nil && r.Faults() == before {
		err := found.check(f.PresetOf(), func(settings any) { overlaySettings(r, settings, f.Values) })
		ReportSettings(r, name, f.Values, err, f.Preset, f)
	}
}

func (f Choice[S]) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	var point S
	s := point.knownKinds()
	alone := slices.DeleteFunc(f.singleWords(), func(name string) bool {
		found, err := s.find(name)
		return err == nil && len(requiredKeys(reflect.TypeOf(found.blank()).Elem())) > 0
	})
	all := &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema(alone...)}}
	for _, name := range s.names() {
		found, _ := s.find(name)
		settings := m.SchemaOf(reflect.TypeOf(found.blank()).Elem())
		if d := m.Definition(settings); d != nil && found.presets != nil {
			preset := yamlfile.EnumSchema(found.presets...)
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

// SystemKeys returns the names of the systems of an extension point and the types of their settings, for callers
// that need every key of a file.
func (f Choice[S]) SystemKeys() (names []string, settings []reflect.Type) {
	var point S
	s := point.knownKinds()
	for _, name := range s.names() {
		found, _ := s.find(name)
		settings = append(settings, reflect.TypeOf(found.blank()).Elem())
	}
	return s.names(), settings
}

// JoinChoice returns f with missing keys taken from base, if both are the same system.
func (f *Choice[S]) JoinChoice(r *yamlfile.Reader, base *Choice[S]) *Choice[S] {
	if f == nil || base == nil || f.Name != base.Name || f.Name == "" {
		if f == nil {
			return base
		}
		return f
	}
	var point S
	s := point.knownKinds()
	found, _ := s.find(f.Name)
	joined := &Choice[S]{Name: f.Name, Preset: f.Preset, Values: found.blank()}
	if joined.Preset == nil {
		joined.Preset = base.Preset
	}
	overlaySettings(r, joined.Values, base.Values)
	overlaySettings(r, joined.Values, f.Values)
	r.SetPlace(joined, r.Place(f))
	return joined
}

// PresetOf returns the preset that f names, or the default; "" for a system without presets.
func (f *Choice[S]) PresetOf() string {
	var point S
	s := point.knownKinds()
	found, err := s.find(f.Name)
	switch {
	case f.Preset != nil:
		return *f.Preset
	case err != nil || found.presets == nil:
		return ""
	}
	return found.presets[0]
}

// CopySettings copies what the file sets to settings, which are those of the system's preset.
func (f *Choice[S]) CopySettings(r *yamlfile.Reader, settings any) {
	if f.Values != nil {
		overlaySettings(r, settings, f.Values)
	}
}

// ReportError reports what is wrong with the settings of the system: at the parameter, at the
// preset, at f, or at place if f is not in the file itself.
func (f *Choice[S]) ReportError(r *yamlfile.Reader, settings any, err error, place any) {
	ReportSettings(r, f.Name, settings, err, f.Preset, f, place)
}
