package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/sim/units"
)

// TestExperimentProgress_LabsThatEndByTheirWindow: the line has the simulated time and the time left
// of cells whose labs have no duration, as the cells' processes report them.
func TestExperimentProgress_LabsThatEndByTheirWindow(t *testing.T) {
	begun := time.Now()
	p := &experimentProgress{begun: begun, all: 4, running: map[int]*running{}}
	for job, until := range []units.Time{100 * units.Millisecond, 0} {
		p.Started(job, "")
		text, err := json.Marshal(experiment.Progress{Now: 50 * units.Millisecond, Until: until, Hops: 1000, Flows: 3})
		if err != nil {
			t.Fatal(err)
		}
		var x experiment.Progress
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		p.Progress(job, x)
	}
	// Half of a cell of four took 10s.
	line := p.formatLine(begun.Add(10 * time.Second))
	for _, want := range []string{"0 of 4 cells  1m10s left  2 running, 0.1s simulated", "6 flows"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %q", want, line)
		}
	}
}
