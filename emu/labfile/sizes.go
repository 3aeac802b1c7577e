package labfile

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
)

// SizesForm is a distribution of sizes: a size, a name, or a mapping.
type SizesForm struct {
	Known sizes.Dist // for a size or a name
	Value Sizes
}

func (f *SizesForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, scalar := yamlfile.ScalarText(n); scalar {
		f.Known = readSizes(r, n, what, text)
		return
	}
	r.Read(&f.Value, n, what)
}

// readSizes reads a size, or the name of a distribution.
func readSizes(r *yamlfile.Reader, n ast.Node, what, text string) sizes.Dist {
	if b, err := units.ParseBytes(text); err == nil {
		if b < 1 {
			r.FailAt(n, "a flow needs at least 1B", "%s must not be %v", what, b)
		}
		return sizes.Fixed(b)
	}
	if d, err := sizes.FindNamed(text); err == nil {
		return d
	}
	r.FailAt(n, suggest.Hint(text, "known are", sizeNames()), "%s: %q is neither a size such as 10KB nor the name of a distribution", what, text)
	return nil
}

func sizeNames() (names []string) {
	for _, k := range sizes.All {
		names = append(names, k.Name)
	}
	return names
}

func (SizesForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{m.SchemaOf(reflect.TypeFor[units.Bytes]()), yamlfile.EnumSchema(sizeNames()...), m.SchemaOf(reflect.TypeFor[Sizes]())}}
}

// LawSizes is a distribution given by its law or its points.
type LawSizes struct {
	Uniform     []units.Bytes `yaml:"uniform,omitempty" jsonschema_description:"[smallest, largest]: every size between them is equally likely" jsonschema:"minItems=2,maxItems=2"`
	Exponential *units.Bytes  `yaml:"exponential,omitempty" jsonschema_description:"exponential distribution with this mean"`
	Pareto      *Pareto       `yaml:"pareto,omitempty" jsonschema_description:"bounded Pareto distribution"`
	CDF         *CDFForm      `yaml:"cdf,omitempty" jsonschema_description:"points of the cumulative distribution, interpolated linearly: a list of [size, percent], or a file with a line BYTES PERCENT for each, as in HPCC"`
}

// Sizes is a distribution of sizes: one of the fields is set.
type Sizes struct {
	yamlfile.OneKey `yaml:",inline"`
	LawSizes        `yaml:",inline"`
	Mix             []Mix `yaml:"mix,omitempty" jsonschema_description:"each flow is drawn from one of several distributions"`
}

// Pareto is a bounded Pareto distribution of sizes.
type Pareto struct {
	Shape float64     `yaml:"shape" jsonschema_description:"shape, above 0, such as 1.05; a smaller shape has a heavier tail"`
	Min   units.Bytes `yaml:"min" jsonschema_description:"smallest size"`
	Max   units.Bytes `yaml:"max" jsonschema_description:"largest size"`
}

// Mix is one distribution of a mix.
type Mix struct {
	Share *units.Fraction `yaml:"share,omitempty" jsonschema_description:"share of the flows; one entry may omit it and gets the rest"`
	Sizes PartSizesForm   `yaml:"sizes" jsonschema_description:"sizes of these flows: anything but another mix"`
}

func (Mix) Noun() string { return "an entry of mix" }

// PartSizesForm is SizesForm without a mix.
type PartSizesForm struct {
	Known sizes.Dist
	Value PartSizes
}

func (f *PartSizesForm) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, scalar := yamlfile.ScalarText(n); scalar {
		f.Known = readSizes(r, n, what, text)
		return
	}
	r.Read(&f.Value, n, what)
}

func (PartSizesForm) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{m.SchemaOf(reflect.TypeFor[units.Bytes]()), yamlfile.EnumSchema(sizeNames()...), m.SchemaOf(reflect.TypeFor[PartSizes]())}}
}

// PartSizes is Sizes without a mix.
type PartSizes struct {
	yamlfile.OneKey `yaml:",inline"`
	LawSizes        `yaml:",inline"`
}

// CDFForm is points, or a file that contains them.
type CDFForm = FileOr[[]CDFPoint]

// CDFPoint is a size and the percentage of flows that are no larger.
type CDFPoint struct {
	Size units.Bytes
	UpTo Percent
}

func (p *CDFPoint) DecodeNode(r *yamlfile.Reader, n ast.Node, what string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) != 2 {
		r.FailAt(n, "write for example [10KB, 15%]", "a point must be a size and a percentage")
		return
	}
	r.Read(&p.Size, list.Values[0], "the size of a point")
	r.Read(&p.UpTo, list.Values[1], "the percentage of a point")
}

func (CDFPoint) MakeSchema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	two := uint64(2)
	return &jsonschema.Schema{Type: "array", MinItems: &two, MaxItems: &two,
		PrefixItems: []*jsonschema.Schema{m.SchemaOf(reflect.TypeFor[units.Bytes]()), m.SchemaOf(reflect.TypeFor[Percent]())}}
}

// Percent is a percentage from 0 to 100.
type Percent float64

// UnmarshalText reads 15 or 15%.
func (p *Percent) UnmarshalText(b []byte) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(string(b), "%")), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return fmt.Errorf("%q is not a percentage from 0 to 100", b)
	}
	*p = Percent(v)
	return nil
}

func (Percent) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number", Minimum: "0", Maximum: "100"}, yamlfile.TextSchema(`^(` + yamlfile.NumberForm + `) *%$`)}}
}
