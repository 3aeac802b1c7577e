package draw

import (
	"fmt"
	"sort"
	"strings"

	"github.com/maruel/natural"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/view/figure"
)

// labelOf returns a column's name without its unit, for an axis.
func labelOf(column string) string {
	if _, scale := table.UnitOf(column); scale != 1 || strings.Contains(column, "_") {
		if i := strings.LastIndexByte(column, '_'); i > 0 {
			if u, _ := table.UnitOf(column); u != table.Plain {
				column = column[:i]
			}
		}
	}
	switch column {
	case "tx":
		return "rate sent"
	case "rx":
		return "rate received"
	}
	return strings.ReplaceAll(column, "_", " ")
}

// eachCell calls f with the tables of the cells at some levels, for all seeds or only the
// first.
func (d *drawer) eachCell(fixed map[int]int, allSeeds bool, f func(b table.Bundle) error) error {
	found := false
	for i := range d.e.Cells {
		c := &d.e.Cells[i]
		ok := d.r.Cells[i].State == experiment.Done
		for factor, l := range fixed {
			ok = ok && c.Levels[factor] == l
		}
		if !ok || found && !allSeeds {
			continue
		}
		b, ok, err := d.store.Get(d.jobs[i].Key)
		if err != nil {
			return fmt.Errorf("cannot read the tables of %s: %w", d.jobs[i].Name, err)
		}
		if !ok {
			return fmt.Errorf("the tables of %s are gone; run the experiment again", d.jobs[i].Name)
		}
		found = true
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

// group is the rows of one line.
type group struct {
	name string
	x, y []float64
}

// distributeRows distributes the rows of a picture's table to lines: by its Split, or all to one
// line. XColumn may be empty.
func distributeRows(p *experiment.Plot, b table.Bundle, all []group, name string, xColumn string) ([]group, error) {
	t := b.Table(p.Of)
	if t == nil {
		return nil, fmt.Errorf("the run left no table %q", p.Of)
	}
	chosen, err := p.Where.FilterRows(t)
	if err != nil {
		return nil, err
	}
	var columns [3]*table.Column
	for i, n := range []string{p.Column, xColumn, p.Split} {
		if n == "" {
			continue
		}
		if columns[i] = t.FindColumn(n); columns[i] == nil {
			return nil, &table.UnknownColumnError{Table: t.Name, Column: n, Has: t.Names()}
		}
	}
	if columns[0].IsText() {
		return nil, fmt.Errorf("%s of table %s is text, which cannot be drawn", p.Column, t.Name)
	}
	if s := columns[2]; s != nil && !s.IsText() {
		return nil, fmt.Errorf("split needs a column of texts, but %s of table %s is numbers", p.Split, t.Name)
	}
	at := map[string]int{}
	for i := range all {
		at[all[i].name] = i
	}
	for _, row := range chosen {
		full := name
		if columns[2] != nil {
			full = strings.TrimPrefix(name+", "+columns[2].Texts[row], ", ")
		}
		i, ok := at[full]
		if !ok {
			i = len(all)
			at[full] = i
			all = append(all, group{name: full})
		}
		all[i].y = append(all[i].y, columns[0].Numbers[row])
		if columns[1] != nil {
			all[i].x = append(all[i].x, columns[1].Numbers[row])
		}
	}
	return all, nil
}

// sortGroups sorts the groups of one line by name, in natural order.
func sortGroups(all []group) []group {
	sort.SliceStable(all, func(i, j int) bool { return natural.Less(all[i].name, all[j].name) })
	return all
}

// rowsOf returns what the rows of a table are, in the plural.
func rowsOf(name string) string {
	switch {
	case strings.HasSuffix(name, "-series"):
		return "samples"
	case strings.HasSuffix(name, "s"):
		return name // flows, transfers, pauses
	}
	return "rows of " + name
}

// maxSteps bounds the points of a distribution.
const maxSteps = 2000

// distributionPanel draws the cumulative distribution of a column, all seeds together.
func (d *drawer) distributionPanel(p *experiment.Plot, fixed map[int]int) (*figure.Panel, error) {
	panel := &figure.Panel{Kind: figure.CDF, Y: figure.Axis{Label: "share of " + rowsOf(p.Of)}}
	x, scale := axisOf(labelOf(p.Column), p.Column, p.LogX)
	panel.X = x
	err := d.eachLine(p, fixed, func(mine map[int]int, name string) error {
		var all []group
		err := d.eachCell(mine, true, func(b table.Bundle) (err error) {
			all, err = distributeRows(p, b, all, name, "")
			return err
		})
		for _, g := range sortGroups(all) {
			for i := range g.y {
				g.y[i] *= scale
			}
			xs, ys := figure.Distribution(g.y, maxSteps)
			panel.Series = append(panel.Series, figure.Series{Name: g.name, X: xs, Y: ys})
		}
		return err
	})
	return panel, err
}

// overTime draws a column over time, for the first seed.
func (d *drawer) overTime(p *experiment.Plot, fixed map[int]int) (*figure.Panel, error) {
	panel := &figure.Panel{Kind: figure.Time, Steps: figure.Before}
	if strings.HasPrefix(p.Column, "queue") {
		panel.Steps = figure.Straight // it is the length at that instant
	}
	panel.X, _ = axisOf("time", "time_s", false)
	y, scale := axisOf(labelOf(p.Column), p.Column, p.LogY)
	panel.Y = y
	err := d.eachLine(p, fixed, func(mine map[int]int, name string) error {
		var all []group
		err := d.eachCell(mine, false, func(b table.Bundle) (err error) {
			all, err = distributeRows(p, b, all, name, "time_s")
			return err
		})
		for _, g := range sortGroups(all) {
			for i := range g.y {
				if g.y[i] *= scale; p.LogY && g.y[i] <= 0 {
					g.y[i] = table.Unknown // a gap: it has no place on the axis
				}
			}
			panel.Series = append(panel.Series, figure.Series{Name: g.name, X: g.x, Y: g.y})
		}
		return err
	})
	return panel, err
}
