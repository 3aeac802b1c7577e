package spec

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/traces/workload"
)

// Schema gives the JSON Schema (draft 2020-12) of a lab file, made from the
// types it is read into, for editors that complete and check YAML. It judges
// the form of the file only; Parse judges what it means.
func Schema() ([]byte, error) {
	m := &schemaMaker{defs: jsonschema.Definitions{}}
	m.Reflector = jsonschema.Reflector{
		FieldNameTag: "yaml",
		Anonymous:    true,
		Namer:        definitions{}.name,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[cc.Choice]() {
				return controlFile{}.schema(m)
			}
			if c, ok := reflect.Zero(t).Interface().(compound); ok {
				return c.schema(m)
			}
			if w, ok := reflect.Zero(t).Interface().(words); ok {
				return enum(w.Names()...)
			}
			return scalarSchema(t)
		},
	}
	s := m.Reflect(labFile{})
	maps.Copy(s.Definitions, m.defs)
	s.Title = "weft lab file"
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// schemaMaker is a reflector that keeps the definitions of what it is asked
// for on the way, for the schema as a whole.
type schemaMaker struct {
	jsonschema.Reflector
	defs jsonschema.Definitions
}

func (m *schemaMaker) of(t reflect.Type) *jsonschema.Schema {
	s := m.ReflectFromType(t)
	maps.Copy(m.defs, s.Definitions)
	s.Definitions, s.Version = nil, ""
	return s
}

// definition gives what a reference refers to; nil for none.
func (m *schemaMaker) definition(s *jsonschema.Schema) *jsonschema.Schema {
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
	panic("spec: two types are called " + t.String())
}

// compound is a type whose form in YAML is not that of its Go type.
type compound interface {
	schema(m *schemaMaker) *jsonschema.Schema
}

// words is a type of a system's settings that is one of some words in YAML.
type words interface {
	Names() []string
}

func (dict[T]) schema(m *schemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: m.of(reflect.TypeFor[T]())}
}

func (oneOrMore[T]) schema(m *schemaMaker) *jsonschema.Schema {
	one := m.of(reflect.TypeFor[T]())
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, {Type: "array", Items: one}}}
}

// JSONSchemaExtend says that exactly one key is there.
func (oneKey) JSONSchemaExtend(s *jsonschema.Schema) {
	one := uint64(1)
	s.MinProperties, s.MaxProperties = &one, &one
}

// The forms of the physical quantities, as package units reads them.
const (
	number      = `[0-9]+(\.[0-9]*)?|\.[0-9]+`
	timeForm    = `^\+?(0|(` + number + `) *(h|min|s|ms|us|µs|μs|ns|ps))$`
	bytesForm   = `^\+?(0|(` + number + `) *(B|KB|kB|MB|GB|TB|KiB|MiB|GiB))$`
	mtuForm     = `^[0-9]+ *(B|KB|kB)?$`
	rateForm    = `^(unlimited|\+?(` + number + `) *([KkMmGgTt]?([Bb][Pp][Ss]|[Bb][Ii][Tt]|[Bb]/[Ss])))$`
	percentForm = `^(` + number + `) *%$`
	matchForm   = `^(none|ip-id=0x[0-9a-fA-F*]{4}(, *0x[0-9a-fA-F*]{4})*)$`
	macForm     = `^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$`
	addressForm = `^[0-9a-fA-F.:]+/[0-9]+$`
	poolForm    = `^(none|[0-9a-fA-F.:]+/[0-9]+)$`
	routeForm   = `^(default|[0-9a-fA-F.:]+/[0-9]+|[a-zA-Z0-9][a-zA-Z0-9_.-]*(:[a-zA-Z0-9][a-zA-Z0-9_.-]*)?)$`
	stepForm    = `^[a-zA-Z0-9_.:-]+$` // an address, or the name of a port
	nodeForm    = `^(auto|none|[0-9a-fA-F.:]+(/[0-9]+)?)$`
)

// scalarSchema gives the schema of types that are read from a single value.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[units.Time]():
		return quantity(timeForm)
	case reflect.TypeFor[units.Bytes]():
		return quantity(bytesForm)
	case reflect.TypeFor[units.Rate]():
		return text(rateForm)
	case reflect.TypeFor[units.Fraction]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{text(percentForm), {Type: "number", Minimum: "0", ExclusiveMaximum: "1"}}}
	case reflect.TypeFor[plan.MTU]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{integer(int(plan.MinMTU), int(plan.MaxMTU)), text(mtuForm)}}
	case reflect.TypeFor[links.Distribution]():
		return enum("uniform", "normal", "exponential", "pareto")
	case reflect.TypeFor[workload.Verb]():
		return enum(workload.VerbNames...)
	case reflect.TypeFor[pfc.Action]():
		return enum("drop", "forward")
	case reflect.TypeFor[plan.State]():
		return enum("up", "down")
	case reflect.TypeFor[mode]():
		return enum(modeNames...)
	case reflect.TypeFor[phases]():
		return enum(phasesNames...)
	case reflect.TypeFor[links.Match]():
		return text(matchForm)
	case reflect.TypeFor[address]():
		return text(addressForm)
	case reflect.TypeFor[nodeAddress]():
		return text(nodeForm)
	case reflect.TypeFor[autoAddress]():
		return enum("auto", "none")
	case reflect.TypeFor[pool]():
		return text(poolForm)
	case reflect.TypeFor[destination]():
		return text(routeForm)
	case reflect.TypeFor[weight]():
		return integer(1, maxWeight)
	case reflect.TypeFor[portName]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer"}, text(stepForm)}}
	case reflect.TypeFor[mac]():
		return text(macForm)
	case reflect.TypeFor[shards]():
		return integer(1, maxShards)
	case reflect.TypeFor[dilation]():
		return integer(1, plan.MaxDilation)
	case reflect.TypeFor[count]():
		return integer(1, maxNodes)
	case reflect.TypeFor[radix]():
		s := integer(2, maxRadix)
		s.MultipleOf = "2"
		return s
	case reflect.TypeFor[dscp]():
		return integer(0, 63)
	case reflect.TypeFor[ipVersion]():
		return &jsonschema.Schema{Enum: []any{4, 6}}
	case reflect.TypeFor[uint64]():
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	case reflect.TypeFor[scalar]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
	}
	return nil
}

func text(form string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: form}
}

// quantity is a number with a unit, or a bare 0.
func quantity(form string) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{text(form), {Const: 0}}}
}

func integer(low, high int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: json.Number(strconv.Itoa(low)), Maximum: json.Number(strconv.Itoa(high))}
}

func enum(names ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, n := range names {
		s.Enum = append(s.Enum, n)
	}
	return s
}
