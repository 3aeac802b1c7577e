// Package page writes a result as one HTML page: pictures, tables, expectations, the
// files, and the command to repeat it. The page needs no other file and no network.
package page

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/view/page"
)

//go:embed body.html
var body string

// Picture is a picture of the page.
type Picture struct {
	Name, Title string
	SVG         []byte
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
}

// Write writes the page of a result.
func Write(w io.Writer, r *experiment.Report, pictures []Picture) error {
	var measures []measure
	for _, h := range r.Measures {
		m := measure{Header: h, Rows: r.Of(h.Name)}
		m.HasBin = slices.ContainsFunc(m.Rows, func(s *experiment.Summary) bool { return s.Bin != "" })
		m.HasPaper = slices.ContainsFunc(m.Rows, func(s *experiment.Summary) bool { return s.Paper != nil })
		measures = append(measures, m)
	}
	return result.Execute(w, map[string]any{
		"Title":  r.Name,
		"Report": r, "Pictures": pictures, "Measures": measures,
		"Done": r.Count(experiment.Done), "Failed": r.Count(experiment.Failed), "Missing": r.Count(experiment.Missing), "Late": r.CountLate(),
	})
}
