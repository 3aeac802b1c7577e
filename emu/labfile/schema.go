package labfile

import (
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/traffic/workload"
)

// Schema returns the JSON Schema (draft 2020-12) of a lab file, for editors
// that complete and check YAML. It is made from the types that the file is read
// into. It checks only the form of the file; Parse checks its meaning.
func Schema() ([]byte, error) {
	return yamlfile.Schema("weft lab file", Lab{}, func(m *yamlfile.SchemaMaker, t reflect.Type) *jsonschema.Schema {
		if t == reflect.TypeFor[cc.Choice]() {
			return Control{}.MakeSchema(m)
		}
		return scalarSchema(t)
	})
}

// Patterns of single values.
const (
	mtuForm     = `^[0-9]+ *(B|KB|kB)?$`
	matchForm   = `^(none|ip-id=0x[0-9a-fA-F*]{4}(, *0x[0-9a-fA-F*]{4})*)$`
	macForm     = `^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$`
	addressForm = `^[0-9a-fA-F.:]+/[0-9]+$`
	poolForm    = `^(none|[0-9a-fA-F.:]+/[0-9]+)$`
	routeForm   = `^(default|[0-9a-fA-F.:]+/[0-9]+|[a-zA-Z0-9][a-zA-Z0-9_.-]*(:[a-zA-Z0-9][a-zA-Z0-9_.-]*)?)$`
	stepForm    = `^[a-zA-Z0-9_.:-]+$` // an address, or the name of a port
	nodeForm    = `^(auto|none|[0-9a-fA-F.:]+(/[0-9]+)?)$`
)

// scalarSchema returns the schema of types that are read from a single value,
// nil for others.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[change.MTU]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.IntegerSchema(int(change.MinMTU), int(change.MaxMTU)), yamlfile.TextSchema(mtuForm)}}
	case reflect.TypeFor[change.Alpha]():
		return alphaSchema()
	case reflect.TypeFor[change.Weight]():
		return yamlfile.IntegerSchema(1, change.MaxWeight)
	case reflect.TypeFor[links.Distribution]():
		return yamlfile.EnumSchema("uniform", "normal", "exponential", "pareto")
	case reflect.TypeFor[workload.Verb]():
		return yamlfile.EnumSchema(workload.VerbNames...)
	case reflect.TypeFor[pfc.Action]():
		return yamlfile.EnumSchema("drop", "forward")
	case reflect.TypeFor[links.State]():
		return yamlfile.EnumSchema("up", "down")
	case reflect.TypeFor[Mode]():
		return yamlfile.EnumSchema(modeNames...)
	case reflect.TypeFor[Phases]():
		return yamlfile.EnumSchema(phasesNames...)
	case reflect.TypeFor[links.Match]():
		return yamlfile.TextSchema(matchForm)
	case reflect.TypeFor[Address]():
		return yamlfile.TextSchema(addressForm)
	case reflect.TypeFor[NodeAddress]():
		return yamlfile.TextSchema(nodeForm)
	case reflect.TypeFor[AutoAddress]():
		return yamlfile.EnumSchema("auto", "none")
	case reflect.TypeFor[Pool]():
		return yamlfile.TextSchema(poolForm)
	case reflect.TypeFor[Destination]():
		return yamlfile.TextSchema(routeForm)
	case reflect.TypeFor[Weight]():
		return yamlfile.IntegerSchema(1, MaxWeight)
	case reflect.TypeFor[PortName]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer"}, yamlfile.TextSchema(stepForm)}}
	case reflect.TypeFor[MAC]():
		return yamlfile.TextSchema(macForm)
	case reflect.TypeFor[Dilation]():
		return yamlfile.IntegerSchema(1, wall.MaxDilation)
	case reflect.TypeFor[Count]():
		return yamlfile.IntegerSchema(1, MaxNodes)
	case reflect.TypeFor[Radix]():
		s := yamlfile.IntegerSchema(2, maxRadix)
		s.MultipleOf = "2"
		return s
	case reflect.TypeFor[DSCP]():
		return yamlfile.IntegerSchema(0, 63)
	case reflect.TypeFor[IPVersion]():
		return &jsonschema.Schema{Enum: []any{4, 6}}
	}
	return nil
}
