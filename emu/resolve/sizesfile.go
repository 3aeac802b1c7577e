package resolve

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

// sizesForm is a distribution of sizes: a size, a name, or a mapping.
type sizesForm struct {
	known sizes.Dist // for a size or a name
	Value sizesFile
}

func (f *sizesForm) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, scalar := yamlfile.ScalarText(n); scalar {
		f.known = readSizes(r, n, what, text)
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
	if d, err := sizes.Named(text); err == nil {
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

func (sizesForm) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{m.Of(reflect.TypeFor[units.Bytes]()), yamlfile.Enum(sizeNames()...), m.Of(reflect.TypeFor[sizesFile]())}}
}

// lawSizesFile is a distribution given by its law or its points.
type lawSizesFile struct {
	Uniform     []units.Bytes `yaml:"uniform,omitempty" jsonschema_description:"[smallest, largest]: every size between them is equally likely" jsonschema:"minItems=2,maxItems=2"`
	Exponential *units.Bytes  `yaml:"exponential,omitempty" jsonschema_description:"exponential distribution with this mean"`
	Pareto      *paretoFile   `yaml:"pareto,omitempty" jsonschema_description:"bounded Pareto distribution"`
	CDF         *cdfForm      `yaml:"cdf,omitempty" jsonschema_description:"points of the cumulative distribution, interpolated linearly: a list of [size, percent], or a file with a line BYTES PERCENT for each, as in HPCC"`
}

type sizesFile struct {
	yamlfile.OneKey `yaml:",inline"`
	lawSizesFile    `yaml:",inline"`
	Mix             []mixFile `yaml:"mix,omitempty" jsonschema_description:"each flow is drawn from one of several distributions"`
}

type paretoFile struct {
	Shape float64     `yaml:"shape" jsonschema_description:"shape, above 0, such as 1.05; a smaller shape has a heavier tail"`
	Min   units.Bytes `yaml:"min" jsonschema_description:"smallest size"`
	Max   units.Bytes `yaml:"max" jsonschema_description:"largest size"`
}

// mixFile is one distribution of a mix.
type mixFile struct {
	Share *units.Fraction `yaml:"share,omitempty" jsonschema_description:"share of the flows; one entry may omit it and gets the rest"`
	Sizes partSizesForm   `yaml:"sizes" jsonschema_description:"sizes of these flows: anything but another mix"`
}

func (mixFile) Noun() string { return "an entry of mix" }

// partSizesForm is sizesForm without a mix.
type partSizesForm struct {
	known sizes.Dist
	Value partSizesFile
}

func (f *partSizesForm) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	if text, scalar := yamlfile.ScalarText(n); scalar {
		f.known = readSizes(r, n, what, text)
		return
	}
	r.Read(&f.Value, n, what)
}

func (partSizesForm) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{m.Of(reflect.TypeFor[units.Bytes]()), yamlfile.Enum(sizeNames()...), m.Of(reflect.TypeFor[partSizesFile]())}}
}

type partSizesFile struct {
	yamlfile.OneKey `yaml:",inline"`
	lawSizesFile    `yaml:",inline"`
}

// cdfForm is points, or a file that contains them.
type cdfForm = fileOr[[]cdfPoint]

// cdfPoint is a size and the percentage of flows that are no larger.
type cdfPoint struct {
	size units.Bytes
	upTo percent
}

func (p *cdfPoint) Decode(r *yamlfile.Reader, n ast.Node, what string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) != 2 {
		r.FailAt(n, "write for example [10KB, 15%]", "a point must be a size and a percentage")
		return
	}
	r.Read(&p.size, list.Values[0], "the size of a point")
	r.Read(&p.upTo, list.Values[1], "the percentage of a point")
}

func (cdfPoint) Schema(m *yamlfile.SchemaMaker) *jsonschema.Schema {
	two := uint64(2)
	return &jsonschema.Schema{Type: "array", MinItems: &two, MaxItems: &two,
		PrefixItems: []*jsonschema.Schema{m.Of(reflect.TypeFor[units.Bytes]()), m.Of(reflect.TypeFor[percent]())}}
}

// percent is a percentage from 0 to 100.
type percent float64

// UnmarshalText reads 15 or 15%.
func (p *percent) UnmarshalText(b []byte) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(string(b), "%")), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return fmt.Errorf("%q is not a percentage from 0 to 100", b)
	}
	*p = percent(v)
	return nil
}

func (percent) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number", Minimum: "0", Maximum: "100"}, yamlfile.Text(`^(` + yamlfile.NumberForm + `) *%$`)}}
}

// sizes resolves a distribution; it returns nil after a fault.
func (v *resolver) sizes(f *sizesForm) sizes.Dist {
	if f.known != nil {
		return f.known
	}
	if v.Place(&f.Value.Mix) == nil {
		return v.lawSizes(&f.Value.lawSizesFile)
	}
	return v.mix(f.Value.Mix, &f.Value.Mix)
}

// lawSizes resolves a distribution; it returns nil after a fault.
func (v *resolver) lawSizes(f *lawSizesFile) sizes.Dist {
	var d sizes.Dist
	var place any
	var err error
	switch {
	case v.Place(&f.Uniform) != nil:
		place = &f.Uniform
		if len(f.Uniform) != 2 {
			v.Fail(place, "write for example uniform: [32B, 1KB]", "uniform needs the smallest and the largest size, not %d sizes", len(f.Uniform))
			return nil
		}
		d, err = sizes.NewUniform(f.Uniform[0], f.Uniform[1])
	case f.Exponential != nil:
		place = f.Exponential
		d, err = sizes.NewExponential(*f.Exponential)
	case f.Pareto != nil:
		place = f.Pareto
		d, err = sizes.NewPareto(float64(f.Pareto.Shape), f.Pareto.Min, f.Pareto.Max)
	case f.CDF != nil:
		place = f.CDF
		d, err = v.cdf(f.CDF)
	default:
		return nil // its fault has been reported
	}
	if err != nil {
		v.Fail(place, "", "%v", err)
		return nil
	}
	return d
}

// cdf resolves points; nil without an error means that a fault has been
// reported.
func (v *resolver) cdf(f *cdfForm) (sizes.Dist, error) {
	if f.file == nil {
		points := make([]sizes.Point, len(f.value))
		for i, p := range f.value {
			points[i] = sizes.Point{Size: p.size, Percent: float64(p.upTo)}
		}
		return distOf(sizes.NewCDF(points))
	}
	name, text, ok := v.text(f.file, "cdf")
	if !ok {
		return nil, nil
	}
	d, err := distOf(sizes.ReadCDF(strings.NewReader(text)))
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return d, err
}

// distOf avoids an interface that holds a nil pointer.
func distOf(c *sizes.CDF, err error) (sizes.Dist, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (v *resolver) mix(files []mixFile, place any) sizes.Dist {
	var parts []sizes.Part
	var rest sizes.Dist
	good := true
	for i := range files {
		f := &files[i]
		d := f.Sizes.known
		if d == nil {
			d = v.lawSizes(&f.Sizes.Value.lawSizesFile)
		}
		switch {
		case d == nil:
			good = false
		case f.Share != nil:
			parts = append(parts, sizes.Part{Share: *f.Share, Dist: d})
		case rest != nil:
			v.Fail(f, "write share: in all entries but one", "two entries of the mix have no share")
			good = false
		default:
			rest = d
		}
	}
	if !good {
		return nil
	}
	m, err := sizes.NewMix(parts, rest)
	if err != nil {
		v.Fail(place, "an entry without share: gets the rest", "%v", err)
		return nil
	}
	return m
}
