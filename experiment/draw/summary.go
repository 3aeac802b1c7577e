package draw

import (
	"slices"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure"
)

// headerOf returns the header of a measure, which must exist.
func (d *drawer) headerOf(measure string) *experiment.Header {
	i := slices.IndexFunc(d.r.Measures, func(h experiment.Header) bool { return h.Name == measure })
	return &d.r.Measures[i]
}

// findSummary finds the summary of a measure at some levels; factors that are not fixed match any
// level. It returns nil if there is none.
func (d *drawer) findSummary(measure, bin string, fixed map[int]int) *experiment.Summary {
	for i := range d.r.Summaries {
		s := &d.r.Summaries[i]
		ok := s.Measure == measure && s.Bin == bin
		for f, l := range fixed {
			ok = ok && s.Levels[f] == d.e.Factors[f].Levels[l]
		}
		if ok {
			return s
		}
	}
	return nil
}

// columns holds the points of a series, and the paper's values beside it.
type columns struct {
	own, paper figure.Series
	seen       bool // there is a value from the paper
}

// addPoint adds a point; a nil or unknown summary is a gap.
func (c *columns) addPoint(x, scale float64, s *experiment.Summary) {
	y, low, high, ofPaper := table.Unknown, table.Unknown, table.Unknown, table.Unknown
	if s != nil {
		y = float64(s.Value) * scale
		low, high = y, y
		if s.Low.IsKnown() {
			low, high = float64(s.Low)*scale, float64(s.High)*scale
		}
		if s.Paper != nil {
			ofPaper, c.seen = s.Paper.Value*scale, true
			c.paper.Reference = sourceOfValue(s.Paper)
		}
	}
	c.own.X, c.own.Y = append(c.own.X, x), append(c.own.Y, y)
	c.own.Low, c.own.High = append(c.own.Low, low), append(c.own.High, high)
	c.paper.X, c.paper.Y = append(c.paper.X, x), append(c.paper.Y, ofPaper)
}

// toSeries returns the columns as series; without x for bars.
func (c *columns) toSeries(name string, withX bool) []figure.Series {
	c.own.Name, c.paper.Name = name, name
	if !withX {
		c.own.X, c.paper.X = nil, nil
	}
	if c.seen {
		return []figure.Series{c.own, c.paper}
	}
	return []figure.Series{c.own}
}

// sourceOfValue says in the legend where a paper's value comes from.
func sourceOfValue(p *experiment.PaperValue) string {
	switch p.Origin {
	case experiment.ReadOff:
		return figure.ReadOff
	case experiment.Remembered:
		return "paper: remembered"
	case experiment.Computed:
		return "computed"
	}
	return "paper"
}

// overFactor draws a measure over a factor, as lines or bars.
func (d *drawer) overFactor(p *experiment.Plot, fixed map[int]int) *figure.Panel {
	h, x := d.headerOf(p.Measure), d.e.FactorIndex(p.X)
	levels := d.e.Factors[x].Levels
	panel := &figure.Panel{Kind: figure.Lines, X: figure.Axis{Label: labelOf(p.X)}}
	y, scale := axisOf(h.Title, h.Unit, p.LogY)
	panel.Y = y
	values, unit, ok := parseLevels(levels)
	if ok && p.Kind == experiment.Line {
		panel.X.Unit = unit
		if p.LogX {
			panel.X.Scale = figure.Log
		}
	} else {
		panel.X.Names = levels
		values = nil
		for i := range levels {
			values = append(values, float64(i+1))
		}
	}
	if p.Kind == experiment.Bars {
		panel.Kind = figure.Bars
	}
	_ = d.eachLine(p, fixed, func(mine map[int]int, name string) error {
		var c columns
		for l := range levels {
			mine[x] = l
			c.addPoint(values[l], scale, d.findSummary(p.Measure, "", mine))
		}
		panel.Series = append(panel.Series, c.toSeries(name, p.Kind == experiment.Line)...)
		return nil
	})
	return panel
}

// parseLevels parses the levels of a factor as numbers with the same unit, if possible.
func parseLevels(levels []string) (values []float64, unit figure.Unit, ok bool) {
	for _, c := range []struct {
		column string
		unit   figure.Unit
	}{{"", figure.Number}, {"_share", figure.Ratio}, {"_bytes", figure.Bytes}, {"_bps", figure.BitsPerSecond}, {"_s", figure.Seconds}} {
		values = values[:0]
		for _, l := range levels {
			x, err := table.Parse(c.column, l)
			if err != nil {
				break
			}
			values = append(values, x)
		}
		if len(values) == len(levels) {
			return values, c.unit, true
		}
	}
	return nil, "", false
}

// heatPanel draws a measure over two factors.
func (d *drawer) heatPanel(p *experiment.Plot, fixed map[int]int) *figure.Panel {
	h, x, y := d.headerOf(p.Measure), d.e.FactorIndex(p.X), d.e.FactorIndex(p.Y)
	z, scale := axisOf(h.Title, h.Unit, p.LogY)
	panel := &figure.Panel{
		Kind: figure.Heat, Z: &z,
		X: figure.Axis{Label: labelOf(p.X), Names: d.e.Factors[x].Levels}, Y: figure.Axis{Label: labelOf(p.Y), Names: d.e.Factors[y].Levels},
	}
	for row := range d.e.Factors[y].Levels {
		var values figure.Values
		for column := range d.e.Factors[x].Levels {
			at := map[int]int{x: column, y: row}
			for f, l := range fixed {
				at[f] = l
			}
			v := table.Unknown
			if s := d.findSummary(p.Measure, "", at); s != nil {
				v = float64(s.Value) * scale
			}
			values = append(values, v)
		}
		panel.Matrix = append(panel.Matrix, values)
	}
	return panel
}

// maxNamedBins is how many bins can have their names below the axis.
const maxNamedBins = 8

// binPanel draws a measure bin by bin.
func (d *drawer) binPanel(p *experiment.Plot, fixed map[int]int) *figure.Panel {
	h, m := d.headerOf(p.Measure), d.e.FindMeasure(p.Measure)
	panel := &figure.Panel{Kind: figure.Lines, X: figure.Axis{Label: m.By}}
	y, scale := axisOf(h.Title, h.Unit, p.LogY)
	panel.Y = y
	var names []string
	for _, s := range d.r.Of(p.Measure) {
		if s.Bin != "" && !slices.Contains(names, s.Bin) {
			names = append(names, s.Bin)
		}
	}
	values := make([]float64, len(names))
	for i := range values {
		values[i] = float64(i + 1)
	}
	if len(m.Edges) == len(names)+1 && len(names) > maxNamedBins && m.Edges[len(names)] <= float64(units.Never) {
		x, xscale := axisOf(labelOf(m.By), m.By, true)
		panel.X = x
		for i := range values {
			values[i] = m.Edges[i+1] * xscale
		}
	} else {
		panel.X = figure.Axis{Label: labelOf(m.By), Names: names}
	}
	if m.Edges == nil {
		panel.Kind = figure.Bars // the bins have no order
	}
	_ = d.eachLine(p, fixed, func(mine map[int]int, name string) error {
		var c columns
		for i, bin := range names {
			c.addPoint(values[i], scale, d.findSummary(p.Measure, bin, mine))
		}
		panel.Series = append(panel.Series, c.toSeries(name, panel.Kind != figure.Bars)...)
		return nil
	})
	return panel
}
