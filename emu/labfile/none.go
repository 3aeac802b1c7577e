package labfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
)

// OrNone is settings that may be replaced by none, which discards those of the
// kind, or by the bare name of a preset if they have presets.
type OrNone[T any] struct {
	none  bool
	Value T
}

// preset is implemented by settings that have presets: byName allocates the
// name of the preset and returns a pointer to it.
type preset interface{ byName() any }

func (o *OrNone[T]) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	text, scalar := yamlfile.ScalarText(n)
	if scalar && text == "none" {
		o.none = true
		return
	}
	if p, ok := any(&o.Value).(preset); ok && scalar {
		r.Read(p.byName(), n, what)
		return
	}
	r.Read(&o.Value, n, what)
}

func (o OrNone[T]) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	forms := []*jsonschema.Schema{{Const: "none"}, m.SchemaOf(reflect.TypeFor[T]())}
	if p, ok := any(&o.Value).(preset); ok {
		forms = append(forms, m.SchemaOf(reflect.TypeOf(p.byName()).Elem()))
	}
	return &jsonschema.Schema{OneOf: forms}
}

// Settings returns the settings, or nil if there are none.
func (o *OrNone[T]) Settings() *T {
	if o == nil || o.none {
		return nil
	}
	return &o.Value
}

// joinUnder returns top with missing keys taken from base. Either may be nil.
func joinUnder[T any](r *yamlfile.Reader, top, base *T) *T {
	if top == nil || base == nil {
		if top == nil {
			top = base
		}
		return top
	}
	joined := *top
	v, below := reflect.ValueOf(&joined).Elem(), reflect.ValueOf(base).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			v.Field(i).Set(below.Field(i))
		}
	}
	r.SetPlace(&joined, r.Place(top))
	return &joined
}

// underNone is under for settings that may be none. Join merges the two if both
// are present.
func underNone[T any](r *yamlfile.Reader, top, base *OrNone[T], join func(top, base *T) *T) *OrNone[T] {
	if top == nil || base == nil || top.none || base.none {
		if top == nil {
			top = base
		}
		return top
	}
	joined := &OrNone[T]{Value: *join(&top.Value, &base.Value)}
	r.SetPlace(joined, r.Place(top))
	r.SetPlace(&joined.Value, r.Place(top))
	return joined
}
