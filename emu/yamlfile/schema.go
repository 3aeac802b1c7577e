package yamlfile

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/sim/units"
)

// Schema gives the JSON Schema (draft 2020-12) of a file of a title that is read into root,
// a struct, for editors that complete and check YAML. Special gives the schema of types
// that have a form of their own and no method Schema, and nil for others; it may be nil.
func Schema(title string, root any, special func(m *SchemaMaker, t reflect.Type) *jsonschema.Schema) ([]byte, error) {
	m := &SchemaMaker{defs: jsonschema.Definitions{}}
	m.reflector = jsonschema.Reflector{
		FieldNameTag: "yaml",
		Anonymous:    true,
		Namer:        definitions{}.name,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if special != nil {
				if s := special(m, t); s != nil {
					return s
				}
			}
			if c, ok := reflect.Zero(t).Interface().(Compound); ok {
				return c.Schema(m)
			}
			if w, ok := reflect.Zero(t).Interface().(words); ok {
				return Enum(w.Names()...)
			}
			return scalarSchema(t)
		},
	}
	s := m.reflector.Reflect(root)
	maps.Copy(s.Definitions, m.defs)
	s.Title = title
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// SchemaMaker makes the schemas of types, and keeps the definitions that it meets on the
// way, for the schema as a whole.
type SchemaMaker struct {
	reflector jsonschema.Reflector
	defs      jsonschema.Definitions
}

// Of gives the schema of a type.
func (m *SchemaMaker) Of(t reflect.Type) *jsonschema.Schema {
	s := m.reflector.ReflectFromType(t)
	maps.Copy(m.defs, s.Definitions)
	s.Definitions, s.Version = nil, ""
	return s
}

// Definition gives what a reference refers to; nil for none.
func (m *SchemaMaker) Definition(s *jsonschema.Schema) *jsonschema.Schema {
	return m.defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
}

// definitions are types by the names of their definitions.
type definitions map[string]reflect.Type

// name is the name of a type's definition: without the ending of this package's types, and
// the package's of settings that a system brings, which are often called Config. Types of
// one name in several packages go by their package too.
func (d definitions) name(t reflect.Type) string {
	if t.Name() == "" {
		return "" // it has no definition
	}
	name, pkg := strings.TrimSuffix(t.Name(), "File"), path.Base(t.PkgPath())
	if name == "Config" || name == "Settings" {
		name = pkg
	}
	for _, name := range []string{name, pkg + "." + t.Name(), strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()} {
		if of, taken := d[name]; !taken || of == t {
			d[name] = t
			return name
		}
	}
	panic("yamlfile: two types are called " + t.String())
}

// Compound is a type whose form in YAML is not that of its Go type.
type Compound interface {
	Schema(m *SchemaMaker) *jsonschema.Schema
}

// words is a type of a system's settings that is one of some words in YAML.
type words interface {
	Names() []string
}

// Schema is that of a mapping with names of the user's choice.
func (Dict[T]) Schema(m *SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: m.Of(reflect.TypeFor[T]())}
}

// Schema is that of a list, or a single value.
func (OneOrMore[T]) Schema(m *SchemaMaker) *jsonschema.Schema {
	one := m.Of(reflect.TypeFor[T]())
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, {Type: "array", Items: one}}}
}

// JSONSchemaExtend says that exactly one key is there.
func (OneKey) JSONSchemaExtend(s *jsonschema.Schema) {
	one := uint64(1)
	s.MinProperties, s.MaxProperties = &one, &one
}

// The forms of numbers and of physical quantities, as package units reads them.
const (
	NumberForm  = `[0-9]+(\.[0-9]*)?|\.[0-9]+`
	TimeForm    = `^\+?(0|(` + NumberForm + `) *(h|min|s|ms|us|µs|μs|ns|ps))$`
	BytesForm   = `^\+?(0|(` + NumberForm + `) *(B|KB|kB|MB|GB|TB|KiB|MiB|GiB))$`
	rateForm    = `^(unlimited|\+?(` + NumberForm + `) *([KkMmGgTt]?([Bb][Pp][Ss]|[Bb][Ii][Tt]|[Bb]/[Ss])))$`
	percentForm = `^(` + NumberForm + `) *%$`
)

// scalarSchema gives the schema of types that are read from a single value; nil for
// others.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[units.Time]():
		return quantity(TimeForm)
	case reflect.TypeFor[units.Bytes]():
		return quantity(BytesForm)
	case reflect.TypeFor[units.Rate]():
		return Text(rateForm)
	case reflect.TypeFor[units.Fraction]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{Text(percentForm), {Type: "number", Minimum: "0", ExclusiveMaximum: "1"}}}
	case reflect.TypeFor[uint64]():
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	case reflect.TypeFor[Scalar]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
	}
	return nil
}

// Text is the schema of text of some form, a regular expression.
func Text(form string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: form}
}

// quantity is a number with a unit, or a bare 0.
func quantity(form string) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{Text(form), {Const: 0}}}
}

// Integer is the schema of a whole number within bounds.
func Integer(low, high int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: json.Number(strconv.Itoa(low)), Maximum: json.Number(strconv.Itoa(high))}
}

// Enum is the schema of one of some words.
func Enum(names ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, n := range names {
		s.Enum = append(s.Enum, n)
	}
	return s
}
