// Package page writes a result as one HTML page: pictures, tables, expectations, the
// files, and the command to repeat it. The page needs no other file and no network.
package page

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/view/page"
)

//go:embed body.html
var body string

// Picture is a picture of the page.
type Picture struct {
	Name    string
	Caption string // what it shows
	Wide    bool   // it has panels, and needs the width of the page
	SVG     []byte
}

var result = page.New(body, template.FuncMap{
	"value": func(unit string, x table.Number, digits int) string { return table.Format(unit, float64(x), digits) },
	"paper": func(unit string, p *experiment.PaperValue) string { return table.Format(unit, p.Value, 4) },
	"join":  strings.Join,
})

// measure is a table of the page.
type measure struct {
	experiment.Header
	Rows             []*experiment.Summary
	HasBin, HasPaper bool
	Grid             *grid // in place of the rows
	Seeds            int
}

// grid is a measure over two factors: a line for each level of one, a column for each of the
// other.
type grid struct {
	Rows, Columns string   // the factors
	Heads         []string // levels of the columns
	Lines         []gridLine
}

type gridLine struct {
	Level string
	Cells []*experiment.Summary // nil if there is none
}

// newGrid returns the grid of a measure without bins over two factors with several levels each; nil
// if it does not have this form.
func newGrid(factors []experiment.Factor, rows []*experiment.Summary) *grid {
	if len(factors) != 2 || len(factors[0].Levels) < 2 || len(factors[1].Levels) < 2 {
		return nil
	}
	g := &grid{Rows: factors[0].Name, Columns: factors[1].Name, Heads: factors[1].Levels}
	for _, row := range factors[0].Levels {
		line := gridLine{Level: row, Cells: make([]*experiment.Summary, len(factors[1].Levels))}
		for i, column := range factors[1].Levels {
			for _, s := range rows {
				if s.Bin == "" && s.Levels[0] == row && s.Levels[1] == column {
					line.Cells[i] = s
				}
			}
		}
		g.Lines = append(g.Lines, line)
	}
	return g
}

// Write writes the page of a result. The date is that of the page: results have none, as they do
// not depend on it.
func Write(w io.Writer, r *experiment.Report, pictures []Picture, date time.Time) error {
	var measures []measure
	for _, h := range r.Measures {
		m := measure{Header: h, Rows: r.Of(h.Name)}
		m.HasBin = slices.ContainsFunc(m.Rows, func(s *experiment.Summary) bool { return s.Bin != "" })
		m.HasPaper = slices.ContainsFunc(m.Rows, func(s *experiment.Summary) bool { return s.Paper != nil })
		if m.Seeds = len(r.Seeds); !m.HasBin {
			m.Grid = newGrid(r.Factors, m.Rows)
		}
		measures = append(measures, m)
	}
	return result.Execute(w, map[string]any{
		"Title":  r.Name,
		"Report": r, "Pictures": pictures, "Measures": measures,
		"Date": date.Format(time.DateOnly),
		"Done": r.CountCells(experiment.Done), "Failed": r.CountCells(experiment.Failed), "Missing": r.CountCells(experiment.Missing), "Late": r.CountLate(),
	})
}
