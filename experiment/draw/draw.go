// Package draw draws the pictures of an experiment from its result.
package draw

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/view/figure"
	"github.com/weftlab/weft/view/figure/canvas"
)

// Drawn is a picture that has been drawn.
type Drawn struct {
	Name, Title string
	Caption     string // what it shows, in a sentence or two
	Wide        bool   // it has panels side by side
	SVG         []byte
}

// DrawPlots draws the pictures of an experiment into a directory, each as PNG, SVG and PDF. It draws
// all pictures that it can; the error describes the others.
func DrawPlots(e *experiment.Experiment, r *experiment.Report, jobs []experiment.Job, store *experiment.Store, dir string) (all []Drawn, err error) {
	d := &drawer{e, r, jobs, store}
	for i := range e.Plots {
		p := &e.Plots[i]
		drawn, perr := d.savePlot(p, filepath.Join(dir, p.Name))
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("picture %s: %w", p.Name, perr))
			continue
		}
		all = append(all, drawn)
	}
	return all, err
}

// drawer draws the pictures of one result.
type drawer struct {
	e     *experiment.Experiment
	r     *experiment.Report
	jobs  []experiment.Job
	store *experiment.Store
}

// savePlot draws a picture into files with this name.
func (d *drawer) savePlot(p *experiment.Plot, name string) (Drawn, error) {
	out := Drawn{Name: p.Name, Title: p.Title, Caption: d.captionOf(p)}
	f, err := d.figureOf(p)
	if err != nil {
		return out, err
	}
	out.Wide = len(f.Panels) > 1
	for _, format := range canvas.Formats {
		if err := f.Save(name + "." + format); err != nil {
			return out, err
		}
	}
	var svg bytes.Buffer
	err = f.Write(&svg, "svg")
	out.SVG = svg.Bytes()
	return out, err
}

// figureOf returns the figure of a picture.
func (d *drawer) figureOf(p *experiment.Plot) (*figure.Figure, error) {
	f := &figure.Figure{Title: p.Title, ShareY: true, Names: d.lineNames(p)}
	panels := []int{-1}
	panel := d.e.FactorIndex(p.Panels)
	if panel >= 0 {
		panels = panels[:0]
		for i := range d.e.Factors[panel].Levels {
			panels = append(panels, i)
		}
	}
	if len(panels) > 1 {
		f.Width = figure.TwoColumns
	}
	for _, level := range panels {
		fixed := map[int]int{}
		title := ""
		if level >= 0 {
			fixed[panel] = level
			title = levelName(&d.e.Factors[panel], level)
		}
		drawn, err := d.panelOf(p, fixed)
		if err != nil {
			return nil, err
		}
		if len(drawn.Series) == 0 && drawn.Matrix == nil {
			return nil, fmt.Errorf("no row of %s matches where, or no cell has run", p.Of)
		}
		drawn.Title = title
		f.Panels = append(f.Panels, *drawn)
	}
	return f, nil
}

// panelOf draws one panel, with some factors fixed.
func (d *drawer) panelOf(p *experiment.Plot, fixed map[int]int) (*figure.Panel, error) {
	switch p.Kind {
	case experiment.CDF:
		return d.distributionPanel(p, fixed)
	case experiment.Time:
		return d.overTime(p, fixed)
	case experiment.Bins:
		return d.binPanel(p, fixed), nil
	case experiment.Heat:
		return d.heatPanel(p, fixed), nil
	}
	return d.overFactor(p, fixed), nil
}

// eachLine calls f for each line of a panel, with the levels that the line fixes and its name.
func (d *drawer) eachLine(p *experiment.Plot, fixed map[int]int, f func(fixed map[int]int, name string) error) error {
	factors := d.e.LineFactors(p)
	for _, levels := range experiment.CombineLevels(d.e.Factors, d.e.Zip) {
		// Take the first combination of each line, with all other factors at their first level.
		first, name := true, ""
		mine := map[int]int{}
		for k, v := range fixed {
			mine[k] = v
			first = first && levels[k] == v
		}
		for i := range d.e.Factors {
			if _, ok := fixed[i]; !ok && !slices.Contains(factors, i) && levels[i] != 0 && !d.e.Zip {
				first = false
			}
		}
		if !first {
			continue
		}
		for _, i := range factors {
			mine[i] = levels[i]
			if name != "" {
				name += ", "
			}
			name += d.e.Factors[i].Levels[levels[i]]
		}
		if err := f(mine, name); err != nil {
			return err
		}
	}
	return nil
}

// lineNames says what the names of a picture's lines are: the levels of which factors, and the values
// of which column.
func (d *drawer) lineNames(p *experiment.Plot) string {
	var words []string
	for _, i := range d.e.LineFactors(p) {
		words = append(words, labelOf(d.e.Factors[i].Name))
	}
	if p.Split != "" {
		words = append(words, labelOf(p.Split))
	}
	return strings.Join(words, ", ")
}

// levelName returns the title of a level's panel: a number needs its factor's name.
func levelName(f *experiment.Factor, level int) string {
	name := f.Levels[level]
	if _, err := strconv.ParseFloat(strings.TrimRight(name, "%KMGTBbpsun"), 64); err == nil {
		return f.Name + " " + name
	}
	return name
}

// axisOf returns the axis of a quantity; values times scale are in its unit.
func axisOf(label, column string, log bool) (a figure.Axis, scale float64) {
	u, scale := table.UnitOf(column)
	a = figure.Axis{Label: label, Unit: map[table.Unit]figure.Unit{
		table.Seconds: figure.Seconds, table.Bytes: figure.Bytes, table.BitsPerSecond: figure.BitsPerSecond, table.Share: figure.Ratio, table.Plain: figure.Number,
	}[u]}
	if log {
		a.Scale = figure.Log
	}
	return a, scale
}
