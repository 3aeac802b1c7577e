package resolve

import (
	"fmt"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/traffic/sizes"
)

// sizesOf resolves a distribution; it returns nil after a fault.
func sizesOf(v *yamlfile.Reader, f *labfile.SizesForm) sizes.Dist {
	if f.Known != nil {
		return f.Known
	}
	if v.Place(&f.Value.Mix) == nil {
		return lawSizes(v, &f.Value.LawSizes)
	}
	return resolveMix(v, f.Value.Mix, &f.Value.Mix)
}

// lawSizes resolves a distribution; it returns nil after a fault.
func lawSizes(v *yamlfile.Reader, f *labfile.LawSizes) sizes.Dist {
	var d sizes.Dist
	var place any
	var err error
	switch {
	case v.Place(&f.Uniform) != nil:
		place = &f.Uniform
		if len(f.Uniform) != 2 {
			v.ReportFault(place, "write for example uniform: [32B, 1KB]", "uniform needs the smallest and the largest size, not %d sizes", len(f.Uniform))
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
		d, err = resolveCDF(v, f.CDF)
	default:
		return nil // its fault has been reported
	}
	if err != nil {
		v.ReportFault(place, "", "%v", err)
		return nil
	}
	return d
}

// resolveCDF resolves points; nil without an error means that a fault has been
// reported.
func resolveCDF(v *yamlfile.Reader, f *labfile.CDFForm) (sizes.Dist, error) {
	if f.File == nil {
		points := make([]sizes.Point, len(f.Value))
		for i, p := range f.Value {
			points[i] = sizes.Point{Size: p.Size, Percent: float64(p.UpTo)}
		}
		return distOf(sizes.NewCDF(points))
	}
	name, text, ok := f.File.Read(v, "cdf")
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

func resolveMix(v *yamlfile.Reader, files []labfile.Mix, place any) sizes.Dist {
	var parts []sizes.Part
	var rest sizes.Dist
	good := true
	for i := range files {
		f := &files[i]
		d := f.Sizes.Known
		if d == nil {
			d = lawSizes(v, &f.Sizes.Value.LawSizes)
		}
		switch {
		case d == nil:
			good = false
		case f.Share != nil:
			parts = append(parts, sizes.Part{Share: *f.Share, Dist: d})
		case rest != nil:
			v.ReportFault(f, "write share: in all entries but one", "two entries of the mix have no share")
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
		v.ReportFault(place, "an entry without share: gets the rest", "%v", err)
		return nil
	}
	return m
}
