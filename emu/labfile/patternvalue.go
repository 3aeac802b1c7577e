package labfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
)

// maxCount bounds counts in patterns.
const maxCount = 1_000_000_000

// Amount is a count in a pattern.
type Amount int

// UnmarshalText reads a number from 1 to maxCount.
func (c *Amount) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxCount)
	*c = Amount(n)
	return err
}

func (Amount) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, maxCount)
}

// LawForm is a law of times: a word, or a mapping with its parameter.
type LawForm struct {
	Word  string
	Value Law
}

// lawWords are the laws without a parameter. The first two are the same.
var lawWords = []string{"poisson", "exponential", "constant"}

func (f *LawForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	text, scalar := yamlfile.ScalarText(n)
	if !scalar {
		r.Read(&f.Value, n, what)
		return
	}
	f.Word = text
	for _, w := range lawWords {
		if w == text {
			return
		}
	}
	r.FailAt(n, "distributions with a parameter are {lognormal: 1.5} and {weibull: 0.7}", "%s: %q must be one of poisson, exponential, constant", what, text)
}

func (LawForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema(lawWords...), m.SchemaOf(reflect.TypeFor[Law]())}}
}

// Law is a law of times with a parameter: one of the fields is set.
type Law struct {
	yamlfile.OneKey `yaml:",inline"`
	Lognormal       *float64 `yaml:"lognormal,omitempty" jsonschema_description:"sigma of the logarithm, above 0 and at most 5"`
	Weibull         *float64 `yaml:"weibull,omitempty" jsonschema_description:"shape, 0.1 to 10; burstier than poisson below 1"`
}

// DestinationsForm is where flows go: a word, or a mapping.
type DestinationsForm struct {
	Word  string
	Value Destinations
}

var destinationWords = []string{"random", "permutation"}

func (f *DestinationsForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	text, scalar := yamlfile.ScalarText(n)
	switch {
	case !scalar:
		r.Read(&f.Value, n, what)
	case text != "random" && text != "permutation":
		r.FailAt(n, "for certain hosts write {hosts: [h1, h2]}", "%s: %q must be one of random, permutation", what, text)
	default:
		f.Word = text
	}
}

func (DestinationsForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{yamlfile.EnumSchema(destinationWords...), m.SchemaOf(reflect.TypeFor[Destinations]())}}
}

// Destinations is where flows go, beyond what a word can say: one of the fields is set.
type Destinations struct {
	yamlfile.OneKey `yaml:",inline"`
	Hosts           yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"any of these hosts except the sender, with * and ? as wildcards"`
	Stride          *Amount                    `yaml:"stride,omitempty" jsonschema_description:"distance from the sender to its receiver in the list of hosts, which is treated as a ring"`
	Matrix          *MatrixForm                `yaml:"matrix,omitempty" jsonschema_description:"load of each pair of hosts: a row for each sender and a column for each receiver, of which only ratios matter; a list of rows, or a file with a line of numbers for each row"`
}

// FileOr is a value, or a file that contains it.
type FileOr[T any] struct {
	File  *TextFile
	Value T
}

func (f *FileOr[T]) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if _, scalar := yamlfile.ScalarText(n); scalar {
		r.Read(&f.File, n, what)
		return
	}
	r.Read(&f.Value, n, what)
}

func (FileOr[T]) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, m.SchemaOf(reflect.TypeFor[T]())}}
}

// MatrixForm is rows of numbers, or a file that contains them.
type MatrixForm = FileOr[[][]float64]
