package figure

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxSeries is how many names a figure can distinguish: more cannot be read.
const maxSeries = 24

// Check returns what is wrong with the figure's data, and where.
func (f *Figure) Check() error {
	switch {
	case len(f.Panels) == 0:
		return errors.New("a figure needs a panel")
	case isOutside(f.Width, 1, 40):
		return fmt.Errorf("a width of %v in: say 1 to 40, or 0 for one column (%v)", f.Width, OneColumn)
	case isOutside(f.Height, 0.5, 40):
		return fmt.Errorf("a height of %v in: say 0.5 to 40, or 0 to suit the width", f.Height)
	case isOutside(f.FontSize, 5, 20):
		return fmt.Errorf("a font size of %v pt: say 5 to 20, or 0 for 8", f.FontSize)
	case isOutside(float64(f.DPI), 50, 1200):
		return fmt.Errorf("%d dpi: say 50 to 1200, or 0 for %d", f.DPI, dpi)
	case f.Columns < 0:
		return fmt.Errorf("%d columns: say 1 or more, or 0 for as many as fit", f.Columns)
	case !slices.Contains([]Legend{Above, Right, Hidden}, f.Legend):
		return fmt.Errorf("legend %q: say \"\" (above), %q or %q", f.Legend, Right, Hidden)
	}
	names := map[string]bool{}
	anything := false
	for i := range f.Panels {
		p := &f.Panels[i]
		for _, s := range p.Series {
			names[s.Name] = true
		}
		if err := p.checkPanel(); err != nil {
			where := fmt.Sprint("panel ", i+1)
			if p.Title != "" {
				where += fmt.Sprintf(" (%s)", p.Title)
			}
			return fmt.Errorf("%s: %w", where, err)
		}
		anything = anything || p.hasData()
	}
	switch {
	case len(names) > maxSeries:
		return fmt.Errorf("%d names of series: more than %d cannot be told apart, so show fewer", len(names), maxSeries)
	case !anything:
		return errors.New("no panel has a value: there is nothing to draw")
	}
	return nil
}

// isOutside reports whether a setting is neither 0 nor between two bounds.
func isOutside(v, low, high float64) bool { return v != 0 && !(v >= low && v <= high) }

func (p *Panel) hasData() bool {
	has := func(v Values) bool { return slices.ContainsFunc(v, func(x float64) bool { return !math.IsNaN(x) }) }
	if p.Kind == Heat {
		return slices.ContainsFunc(p.Matrix, has)
	}
	return slices.ContainsFunc(p.Series, func(s Series) bool {
		return has(s.Y) || (p.Kind == CDF || p.Kind == CCDF) && s.Y == nil && has(s.X)
	})
}

func (p *Panel) checkPanel() error {
	kinds := []Kind{CDF, CCDF, Lines, Points, Time, Bars, Heat}
	if !slices.Contains(kinds, p.Kind) {
		return fmt.Errorf("unknown kind %q: must be one of %v", p.Kind, kinds)
	}
	if !slices.Contains([]Steps{Straight, After, Before}, p.Steps) {
		return fmt.Errorf("steps %q: say \"\", %q or %q", p.Steps, After, Before)
	}
	if p.Steps != Straight && p.Kind != Time && p.Kind != CDF && p.Kind != CCDF {
		return fmt.Errorf("steps are of kinds %q, %q and %q, but this is %q", Time, CDF, CCDF, p.Kind)
	}
	if err := p.X.checkAxis("x"); err != nil {
		return err
	}
	if err := p.Y.checkAxis("y"); err != nil {
		return err
	}
	if p.Y.Scale == Share || p.Kind != Lines && p.Kind != Points && p.X.Scale == Share {
		return fmt.Errorf("scale %q is for x of %q and %q", Share, Lines, Points)
	}
	if err := p.checkMarks(); err != nil {
		return err
	}
	if p.Kind == Heat {
		return p.checkHeat()
	}
	switch {
	case p.Matrix != nil || p.Z != nil:
		return fmt.Errorf("a matrix and z are of kind %q, but this is %q", Heat, p.Kind)
	case len(p.Series) == 0:
		return errors.New("it has no series")
	case p.Kind == Bars && len(p.X.Names) == 0:
		return errors.New("bars need x's names")
	case p.Y.Names != nil:
		return fmt.Errorf("y has names, which is only for kind %q", Heat)
	case p.X.Names != nil && (p.Kind == CDF || p.Kind == CCDF || p.Kind == Time):
		return fmt.Errorf("x of kind %q has no names", p.Kind)
	}
	for i := range p.Series {
		s := &p.Series[i]
		if err := p.checkSeries(s); err != nil {
			return fmt.Errorf("series %d (%s): %w", i+1, s.Name, err)
		}
	}
	return nil
}

// checkMarks checks that the x axis can show the marks.
func (p *Panel) checkMarks() error {
	for i, m := range p.Marks {
		switch {
		case p.X.Names != nil || p.X.Scale == Share:
			return errors.New("marks need an x of numbers, but it has names or shares")
		case math.IsNaN(m.X) || math.IsInf(m.X, 0) || p.X.Scale == Log && m.X <= 0:
			return fmt.Errorf("mark %d (%s): the axis cannot show %v", i+1, m.Name, m.X)
		}
	}
	return nil
}

func (a *Axis) checkAxis(name string) error {
	if !slices.Contains([]Scale{Linear, Log, Share}, a.Scale) {
		return fmt.Errorf("%s: scale %q: say \"\" (linear), %q or %q", name, a.Scale, Log, Share)
	}
	for _, end := range []*float64{a.Min, a.Max} {
		switch {
		case end == nil:
		case math.IsNaN(*end) || math.IsInf(*end, 0):
			return fmt.Errorf("%s: an axis cannot end at %v", name, *end)
		case a.Scale == Log && *end <= 0:
			return fmt.Errorf("%s: a logarithmic axis cannot end at %v", name, *end)
		case a.Scale == Share || a.Names != nil:
			return fmt.Errorf("%s: an axis of names or shares has no min and max", name)
		}
	}
	if a.Min != nil && a.Max != nil && *a.Min >= *a.Max {
		return fmt.Errorf("%s: min %v is not below max %v", name, *a.Min, *a.Max)
	}
	if a.Names != nil && a.Scale != Linear {
		return fmt.Errorf("%s: it has names, so it has no scale", name)
	}
	if a.Quantiles != nil && a.Scale != Share {
		return fmt.Errorf("%s: quantiles are of scale %q", name, Share)
	}
	for i, q := range a.Quantiles {
		if math.IsNaN(q) || math.IsInf(q, 0) || i > 0 && q < a.Quantiles[i-1] {
			return fmt.Errorf("%s: quantile %d is %v: they must ascend", name, i+1, q)
		}
	}
	return nil
}

func (p *Panel) checkHeat() error {
	switch {
	case len(p.Series) > 0:
		return errors.New("a heat map has a matrix, not series")
	case len(p.X.Names) == 0 || len(p.Y.Names) == 0:
		return errors.New("a heat map needs x's and y's names")
	case len(p.Matrix) != len(p.Y.Names):
		return fmt.Errorf("the matrix has %d rows, and y %d names", len(p.Matrix), len(p.Y.Names))
	}
	z := Axis{}
	if p.Z != nil {
		z = *p.Z
	}
	if err := z.checkAxis("z"); err != nil {
		return err
	}
	if z.Names != nil || z.Scale == Share {
		return errors.New("z has numbers: neither names nor shares")
	}
	for i, row := range p.Matrix {
		if len(row) != len(p.X.Names) {
			return fmt.Errorf("row %d of the matrix has %d values, and x %d names", i+1, len(row), len(p.X.Names))
		}
		if err := checkFinite(fmt.Sprint("row ", i+1), row, z.Scale); err != nil {
			return err
		}
	}
	return nil
}

func (p *Panel) checkSeries(s *Series) error {
	st := s.Style
	for _, c := range []struct {
		what   string
		v, top int
	}{{"colour", st.Colour, 8}, {"dash", st.Dash, len(dashes)}, {"marker", st.Marker, len(markers)}, {"hatch", st.Hatch, len(hatches)}} {
		if c.v < 0 || c.v > c.top {
			return fmt.Errorf("%s %d: say 1 to %d, or 0", c.what, c.v, c.top)
		}
	}
	distribution := p.Kind == CDF || p.Kind == CCDF
	switch {
	case distribution && s.Y == nil && s.Low == nil && s.High == nil:
	case p.Kind == Bars && s.X != nil:
		return errors.New("bars belong to x's names, so they have no x")
	case p.Kind == Bars && len(s.Y) != len(p.X.Names):
		return fmt.Errorf("y has %d values, and x %d names", len(s.Y), len(p.X.Names))
	case p.Kind != Bars && len(s.X) != len(s.Y):
		return fmt.Errorf("x has %d values, and y %d", len(s.X), len(s.Y))
	}
	if (s.Low != nil || s.High != nil) && (len(s.Low) != len(s.Y) || len(s.High) != len(s.Y)) {
		return fmt.Errorf("y has %d values, low %d and high %d", len(s.Y), len(s.Low), len(s.High))
	}
	xScale, yScale := p.X.Scale, p.Y.Scale
	if distribution {
		// What a logarithmic axis cannot show lies left of it, or below.
		xScale, yScale = Linear, Linear
	}
	return errors.Join(checkFinite("x", s.X, xScale), checkFinite("y", s.Y, yScale), checkFinite("low", s.Low, Linear), checkFinite("high", s.High, Linear), p.checkOrder(s), p.checkNumbers(s))
}

// checkFinite checks that an axis with this scale can show all values.
func checkFinite(name string, values Values, scale Scale) error {
	for i, v := range values {
		switch {
		case math.IsInf(v, 0):
			return fmt.Errorf("%s: value %d is infinite: leave it out (NaN)", name, i+1)
		case scale == Log && v <= 0:
			return fmt.Errorf("%s: value %d is %v, which a logarithmic axis cannot show: leave it out (NaN), or use a linear axis", name, i+1, v)
		}
	}
	return nil
}

// checkOrder checks that x and shares do not decrease, and that shares are from 0 to 1.
func (p *Panel) checkOrder(s *Series) error {
	distribution := (p.Kind == CDF || p.Kind == CCDF) && s.Y != nil
	if p.Kind != Time && !distribution {
		return nil
	}
	for i := 1; i < len(s.X); i++ {
		if s.X[i] < s.X[i-1] {
			return fmt.Errorf("x: value %d, %v, is less than the one before, %v: they must ascend", i+1, s.X[i], s.X[i-1])
		}
	}
	for i, y := range s.Y {
		if distribution && (y < 0 || y > 1+1e-9 || i > 0 && y < s.Y[i-1]) {
			return fmt.Errorf("y: value %d is %v: shares must ascend from 0 to 1", i+1, y)
		}
	}
	return nil
}

// checkNumbers checks that, if x has names, its values are their numbers.
func (p *Panel) checkNumbers(s *Series) error {
	if p.X.Names == nil {
		return nil
	}
	for i, x := range s.X {
		if x < 1 || x > float64(len(p.X.Names)) {
			return fmt.Errorf("x: value %d is %v: x has the names 1 to %d (%s)", i+1, x, len(p.X.Names), strings.Join(p.X.Names, ", "))
		}
	}
	return nil
}
