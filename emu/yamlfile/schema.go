package yamlfile

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/sim/units"
)

// Schema returns the JSON Schema (draft 2020-12) of a file that is read into root, a
// struct, for editors that complete and check YAML. Special returns the schema of types
// with a special form and no method Schema, and nil for others; it may be nil.
func Schema(title string, root any, special func(m *SchemaMaker, t reflect.Type) *jsonschema.Schema) ([]byte, error) {
	m := &SchemaMaker{defs: jsonschema.Definitions{}}
	m.reflector = jsonschema.Reflector{
		FieldNameTag: "yaml",
		Anonymous:    true,
		Namer:        definitions{}.definitionName,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if special != nil {
				if s := special(m, t); s != nil {
					return s
				}
			}
			if c, ok := reflect.Zero(t).Interface().(Compound); ok {
				return c.MakeSchema(m)
			}
			if w, ok := reflect.Zero(t).Interface().(words); ok {
				return EnumSchema(w.Names()...)
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

// SchemaMaker makes the schemas of types, and collects the definitions that they use for
// the whole schema.
type SchemaMaker struct {
	reflector jsonschema.Reflector
	defs      jsonschema.Definitions
}

// SchemaOf returns the schema of a type.
func (m *SchemaMaker) SchemaOf(t reflect.Type) *jsonschema.Schema {
	s := m.reflector.ReflectFromType(t)
	maps.Copy(m.defs, s.Definitions)
	s.Definitions, s.Version = nil, ""
	return s
}

// Definition returns the target of a reference; nil if there is none.
func (m *SchemaMaker) Definition(s *jsonschema.Schema) *jsonschema.Schema {
	return m.defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
}

// definitions maps names of definitions to types.
type definitions map[string]reflect.Type

// definitionName returns the name of a type's definition, without the suffix File. A system's
// settings, which are often called Config, are named after their package. The types of a
// package with a file's form, such as labfile, begin with a lower-case letter. If types
// in several packages have the same name, the name includes the package.
func (d definitions) definitionName(t reflect.Type) string {
	if t.Name() == "" {
		return "" // it has no definition
	}
	name, pkg := strings.TrimSuffix(t.Name(), "File"), path.Base(t.PkgPath())
	switch {
	case name == "Config" || name == "Settings":
		name = pkg
	case strings.HasSuffix(pkg, "file"):
		name = lowerFirst(name)
	}
	for _, name := range []string{name, pkg + "." + t.Name(), strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()} {
		if of, taken := d[name]; !taken || of == t {
			d[name] = t
			return name
		}
	}
	panic("yamlfile: duplicate type name " + t.String())
}

// lowerFirst returns a name with its first word in lower case: fatTree for FatTree, and
// ndpFlows for NDPFlows.
func lowerFirst(name string) string {
	n := 0
	for n < len(name) && unicode.IsUpper(rune(name[n])) {
		n++
	}
	if n > 1 && n < len(name) {
		n-- // the last capital begins the next word
	}
	return strings.ToLower(name[:n]) + name[n:]
}

// Compound is a type whose YAML form differs from that of its Go type.
type Compound interface {
	MakeSchema(m *SchemaMaker) *jsonschema.Schema
}

// words is an enumeration in a system's settings.
type words interface {
	Names() []string
}

// MakeSchema allows a mapping with names chosen by the user.
func (Dict[T]) MakeSchema(m *SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: m.SchemaOf(reflect.TypeFor[T]())}
}

// MakeSchema allows a list or a single value.
func (OneOrMore[T]) MakeSchema(m *SchemaMaker) *jsonschema.Schema {
	one := m.SchemaOf(reflect.TypeFor[T]())
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, {Type: "array", Items: one}}}
}

// JSONSchemaExtend requires exactly one key.
func (OneKey) JSONSchemaExtend(s *jsonschema.Schema) {
	one := uint64(1)
	s.MinProperties, s.MaxProperties = &one, &one
}

// Patterns of numbers and physical quantities, as package units reads them.
const (
	NumberForm  = `[0-9]+(\.[0-9]*)?|\.[0-9]+`
	TimeForm    = `^\+?(0|(` + NumberForm + `) *(h|min|s|ms|us|µs|μs|ns|ps))$`
	BytesForm   = `^\+?(0|(` + NumberForm + `) *(B|KB|kB|MB|GB|TB|KiB|MiB|GiB))$`
	rateForm    = `^(unlimited|\+?(` + NumberForm + `) *([KkMmGgTt]?([Bb][Pp][Ss]|[Bb][Ii][Tt]|[Bb]/[Ss])))$`
	percentForm = `^(` + NumberForm + `) *%$`
)

// scalarSchema returns the schema of types that are read from a single value; nil for
// others.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[units.Time]():
		return quantitySchema(TimeForm)
	case reflect.TypeFor[units.Bytes]():
		return quantitySchema(BytesForm)
	case reflect.TypeFor[units.Rate]():
		return TextSchema(rateForm)
	case reflect.TypeFor[units.Fraction]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{TextSchema(percentForm), {Type: "number", Minimum: "0", ExclusiveMaximum: "1"}}}
	case reflect.TypeFor[uint64]():
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	case reflect.TypeFor[Scalar]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
	}
	return nil
}

// TextSchema returns the schema of text that matches form, a regular expression.
func TextSchema(form string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: form}
}

// quantitySchema returns the schema of a number with a unit, or a bare 0.
func quantitySchema(form string) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{TextSchema(form), {Const: 0}}}
}

// IntegerSchema returns the schema of a whole number within bounds.
func IntegerSchema(low, high int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: json.Number(strconv.Itoa(low)), Maximum: json.Number(strconv.Itoa(high))}
}

// EnumSchema returns the schema of one of several words.
func EnumSchema(names ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, n := range names {
		s.Enum = append(s.Enum, n)
	}
	return s
}
