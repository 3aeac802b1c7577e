package experiment

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weftlab/weft/experiment/table"
)

// The table and the column in which a cell says how the backlog of its open-loop flows grows over
// the measurement window, as a share of what they offer.
const (
	RunTable      = "run"
	BacklogGrowth = "backlog_growth_share"
)

// steadyGrowth is the growth of the backlog up to which a combination counts as steady: our choice.
const steadyGrowth = 0.05

// Growth is the growth of the backlog of a combination of levels, over its seeds.
type Growth struct {
	Levels []string     `json:"levels"`
	Value  table.Number `json:"growth"` // mean
	Low    table.Number `json:"low95"`
	High   table.Number `json:"high95"`
}

// String returns the growth with its interval: "12% ± 3%".
func (g *Growth) String() string {
	s := Summary{Value: g.Value, Low: g.Low, High: g.High}
	text := table.Format(BacklogGrowth, float64(g.Value), 2)
	if g.Low.IsKnown() {
		text += " " + s.Interval(BacklogGrowth)
	}
	return text
}

// backlogGrowth returns the growth of the backlog of a cell; unknown without open-loop flows.
func backlogGrowth(b table.Bundle) table.Number {
	t := b.Table(RunTable)
	if t == nil || t.Len() == 0 || t.FindColumn(BacklogGrowth) == nil {
		return table.Number(table.Unknown)
	}
	return table.Number(t.FindColumn(BacklogGrowth).Numbers[0])
}

// findUnsteady finds the combinations of levels whose backlog grows by more than steadyGrowth: of
// several seeds on average, and so that the 95% confidence interval is above 0.
func (e *Experiment) findUnsteady(outcomes []Outcome) (all []Growth) {
	for _, levels := range CombineLevels(e.Factors, e.Zip) {
		var values []float64
		for i := range e.Cells {
			if g := outcomes[i].Growth; outcomes[i].State == Done && g.IsKnown() && slices.Equal(e.Cells[i].Levels, levels) {
				values = append(values, float64(g))
			}
		}
		g := Growth{}
		g.Value, g.Low, g.High = Mean.centerOf(values)
		if !(g.Value > steadyGrowth) || g.Low.IsKnown() && g.Low <= 0 {
			continue
		}
		for f, l := range levels {
			g.Levels = append(g.Levels, e.Factors[f].Levels[l])
		}
		all = append(all, g)
	}
	return all
}

// countCombinations counts the combinations of levels.
func (r *Report) countCombinations() int { return len(r.Cells) / max(1, len(r.Seeds)) }

// writeUnsteady prints the combinations without a steady state.
func (r *Report) writeUnsteady(w io.Writer) {
	if len(r.Unsteady) == 0 {
		return
	}
	fmt.Fprintln(w, "\nNO STEADY STATE: the backlog of flows grows over the window, so that results depend on its length")
	for i := range r.Unsteady {
		g := &r.Unsteady[i]
		fmt.Fprintf(w, "  %s: by %s of what is offered\n", r.combinationName(g.Levels), g)
	}
}

// combinationName names levels with their factors; "all cells" if there are no factors.
func (r *Report) combinationName(levels []string) string {
	var words []string
	for f, l := range levels {
		words = append(words, r.Factors[f].Name+"="+l)
	}
	if words == nil {
		return "all cells"
	}
	return strings.Join(words, " ")
}
