package file

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/experiment"
)

// labForm is the path of a lab file, or the lab itself.
type labForm struct {
	path   *string
	inline *rawValue
}

// DecodeNode reads either.
func (f *labForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if _, ok := yamlfile.ScalarText(n); ok {
		f.path = new(string)
		r.Read(f.path, n, what)
		return
	}
	f.inline = new(rawValue)
	r.Read(f.inline, n, what)
}

// MakeSchema allows a path or a lab.
func (labForm) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "object"}}}
}

// factorForm is what a factor changes: patches for each level, or the values of a path.
type factorForm struct {
	paths  yamlfile.OneOrMore[string]
	values []rawValue
	levels yamlfile.Dict[patches]
}

// factorPath is a factor given by the values of a path.
type factorPath struct {
	Path   yamlfile.OneOrMore[string] `yaml:"path" jsonschema_description:"path in the lab to vary, or several paths that get the same value"`
	Values []rawValue                 `yaml:"values" jsonschema_description:"values of the path, which also name the levels"`
}

// Noun names the type in messages.
func (factorPath) Noun() string { return "a factor" }

// DecodeNode reads either form.
func (f *factorForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	entries, ok := r.Entries(n)
	if !ok {
		r.ReportKind(n, what, "the levels of a factor", "write {path: P, values: [A, B]}, or {LEVEL: {PATH: VALUE}, ...}")
		return
	}
	if slices.ContainsFunc(entries, func(e yamlfile.KeyValue) bool { return e.Key == "path" || e.Key == "values" }) {
		var p factorPath
		r.ReadFields(reflect.ValueOf(&p).Elem(), n, what, nil)
		f.paths, f.values = p.Path, p.Values
		for i := range f.values {
			v, _ := r.ValueOf(&p.Values[i])
			f.values[i] = rawValue{v}
		}
		return
	}
	r.Read(&f.levels, n, what)
}

// MakeSchema allows either form.
func (factorForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{m.SchemaOf(reflect.TypeFor[factorPath]()), m.SchemaOf(reflect.TypeFor[yamlfile.Dict[patches]]())}}
}

// measureForm is a measure, or an expression as text.
type measureForm struct{ measureFile }

// DecodeNode reads either.
func (f *measureForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if _, ok := yamlfile.ScalarText(n); ok {
		f.Expr = new(string)
		r.Read(f.Expr, n, what)
		return
	}
	r.Read(&f.measureFile, n, what)
}

// MakeSchema allows either form.
func (measureForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, m.SchemaOf(reflect.TypeFor[measureFile]())}}
}

// byForm selects the bins of a measure: a column, with edges if it contains numbers.
type byForm struct {
	column string
	edges  []yamlfile.Scalar
}

// DecodeNode reads a column, or a column and its edges.
func (f *byForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if _, ok := yamlfile.ScalarText(n); ok {
		r.Read(&f.column, n, what)
		return
	}
	entries, ok := r.Entries(n)
	if !ok || len(entries) != 1 {
		r.ReportKind(n, what, "a column, or a column and the edges of its bins", "write for example {size_bytes: [0, 10KB, 1MB]}")
		return
	}
	f.column = entries[0].Key
	r.Read(&f.edges, entries[0].Value, "the edges of "+f.column)
}

// MakeSchema allows either form.
func (byForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	one := uint64(1)
	edges := &jsonschema.Schema{Type: "array", Items: m.SchemaOf(reflect.TypeFor[yamlfile.Scalar]())}
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "object", MinProperties: &one, MaxProperties: &one, AdditionalProperties: edges}}}
}

// readForm says how to read output: the name of a format, or a regular expression.
type readForm struct {
	format experiment.Format
	regexpFile
}

// DecodeNode reads either.
func (f *readForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	text, ok := yamlfile.ScalarText(n)
	if !ok {
		f.format = experiment.Regexp
		r.Read(&f.regexpFile, n, what)
		return
	}
	names := toStrings(experiment.Formats)
	if !slices.Contains(names, text) {
		r.FailAt(n, suggest.Hint(text, "the readers are", names)+"; for any other program use a regular expression: {regexp: 'took (?P<time_ms>[0-9.]+) ms'}", "%s: there is no reader for the output of %q", what, text)
	}
	f.format = experiment.Format(text)
}

// MakeSchema allows either form.
func (readForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema(toStrings(experiment.Formats)...), m.SchemaOf(reflect.TypeFor[regexpFile]())}}
}

// maxSeeds bounds the seeds of an experiment.
const maxSeeds = 10_000

// seeds are the seeds of an experiment: their number, or a list.
type seeds []uint64

// DecodeNode reads either.
func (s *seeds) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, ok := yamlfile.ScalarText(n); ok {
		count, err := yamlfile.ParseInt([]byte(text), 1, maxSeeds)
		if err != nil {
			r.FailAt(n, "write the number of seeds, or a list of them", "%s: %v", what, err)
		}
		for i := range count {
			*s = append(*s, uint64(i)+1)
		}
		return
	}
	r.Read((*[]uint64)(s), n, what)
	for i, x := range *s {
		if slices.Contains((*s)[:i], x) {
			r.ReportFault(&(*s)[i], "", "duplicate seed %d", x)
		}
	}
	if len(*s) == 0 {
		r.FailAt(n, "write at least one seed", "%s: the list is empty", what)
	}
}

// MakeSchema allows either form.
func (seeds) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.IntegerSchema(1, maxSeeds), {Type: "array", Items: m.SchemaOf(reflect.TypeFor[uint64]())}}}
}

// The types from here on are enumerations.

type clock experiment.Clock

var clocks = []string{string(experiment.Virtual), string(experiment.Wall)}

// UnmarshalText reads virtual or wall.
func (c *clock) UnmarshalText(b []byte) error { return oneOf(c, b, clocks) }

// MakeSchema allows the words.
func (clock) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(clocks...)
}

type late string

var lates = []string{"fail", "keep"}

// UnmarshalText reads fail or keep.
func (l *late) UnmarshalText(b []byte) error { return oneOf(l, b, lates) }

// MakeSchema allows the words.
func (late) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(lates...)
}

type combine string

var combines = []string{"product", "zip"}

// UnmarshalText reads product or zip.
func (c *combine) UnmarshalText(b []byte) error { return oneOf(c, b, combines) }

// MakeSchema allows the words.
func (combine) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(combines...)
}

type center experiment.Center

// UnmarshalText reads one of experiment.Centers.
func (c *center) UnmarshalText(b []byte) error { return oneOf(c, b, toStrings(experiment.Centers)) }

// MakeSchema allows the words.
func (center) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(toStrings(experiment.Centers)...)
}

type plotKind experiment.PlotKind

// UnmarshalText reads one of experiment.PlotKinds.
func (k *plotKind) UnmarshalText(b []byte) error { return oneOf(k, b, toStrings(experiment.PlotKinds)) }

// MakeSchema allows the words.
func (plotKind) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(toStrings(experiment.PlotKinds)...)
}

type origin experiment.Origin

// UnmarshalText reads one of experiment.Origins.
func (o *origin) UnmarshalText(b []byte) error { return oneOf(o, b, toStrings(experiment.Origins)) }

// MakeSchema allows the words.
func (origin) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(toStrings(experiment.Origins)...)
}

func toStrings[T ~string](words []T) (all []string) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

// oneOf reads one of several words.
func oneOf[T ~string](to *T, b []byte, words []string) error {
	if !slices.Contains(words, string(b)) {
		return fmt.Errorf("%q must be one of %s", b, strings.Join(words, ", "))
	}
	*to = T(b)
	return nil
}
