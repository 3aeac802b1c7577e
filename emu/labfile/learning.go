package labfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// Learning says how a switch learns Ethernet addresses, or that it does not.
type Learning struct {
	Off bool
	MACTable
}

// MACTable holds the settings of a switch's table of learned addresses.
type MACTable struct {
	Age  *units.Time `yaml:"age,omitempty" jsonschema_description:"how long the switch remembers an address after its last frame; default 300s"`
	Size *TableSize  `yaml:"size,omitempty" jsonschema_description:"maximum number of addresses, 1 to 1048576; default 8192"`
}

// TableSize is a number of entries.
type TableSize int

// maxTableSize bounds a TableSize.
const maxTableSize = 1 << 20

// UnmarshalText reads a number from 1 to maxTableSize.
func (s *TableSize) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxTableSize)
	*s = TableSize(n)
	return err
}

func (TableSize) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, maxTableSize)
}

func (f *Learning) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, ok := yamlfile.ScalarText(n); ok {
		switch f.Off = text == "off"; {
		case f.Off || text == "on":
		default:
			r.FailAt(n, "write for example learning: {age: 60s}", "%s must be on, off, or age and size of its table, not %q", what, text)
		}
		return
	}
	r.Read(&f.MACTable, n, what)
}

func (Learning) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema("on", "off"), m.SchemaOf(reflect.TypeFor[MACTable]())}}
}

// MergeKind returns the settings of a switch with missing keys taken from those of its kind. Either
// may be nil.
func (f *Learning) MergeKind(r *yamlfile.Reader, kind *Learning) *Learning {
	if f == nil || kind == nil || f.Off || kind.Off {
		if f == nil {
			f = kind
		}
		return f
	}
	joined := &Learning{MACTable: *joinUnder(r, &f.MACTable, &kind.MACTable)}
	r.SetPlace(joined, r.Place(f))
	return joined
}
