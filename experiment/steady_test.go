package experiment

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/experiment/table"
)

// TestUnsteady: a combination has no steady state if its backlog grows by more than a twentieth of
// what is offered, and more than chance explains.
func TestUnsteady(t *testing.T) {
	e := &Experiment{Name: "x", Seeds: []uint64{1, 2, 3}, Factors: []Factor{{Name: "load", Levels: []string{"50%", "90%", "noisy", "closed"}}}}
	var outcomes []Outcome
	for level, growths := range [][]float64{{0.01, 0, 0.02}, {0.2, 0.21, 0.22}, {0.3, -0.2, 0.1}, {table.Unknown, table.Unknown, table.Unknown}} {
		for seed, g := range growths {
			e.Cells = append(e.Cells, Cell{Levels: []int{level}, Seed: uint64(seed + 1)})
			outcomes = append(outcomes, Outcome{State: Done, Growth: table.Number(g)})
		}
	}
	r := e.Report(make([]Job, len(outcomes)), outcomes, "", "")
	var text strings.Builder
	r.WriteText(&text)
	if len(r.Unsteady) != 1 || r.Unsteady[0].Levels[0] != "90%" || !strings.Contains(text.String(), "UNSTEADY 1 of 4 combinations") ||
		!strings.Contains(text.String(), "  load=90%: by 21% ± 2.5% of what is offered\n") {
		t.Errorf("%+v\n%s", r.Unsteady, &text)
	}
	outcomes[3].State = Failed
	if r := e.Report(make([]Job, len(outcomes)), outcomes, "", ""); len(r.Unsteady) != 1 || r.Unsteady[0].Value < 0.21 {
		t.Errorf("without the cell that failed: %+v", r.Unsteady)
	}
}
