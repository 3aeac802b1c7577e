package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/status"
)

// TestReport_ShowsSwitchesThatLearned, a dozen of them.
func TestReport_ShowsSwitchesThatLearned(t *testing.T) {
	var b strings.Builder
	r := &Report{}
	r.Write(&b)
	if strings.Contains(b.String(), "unknown unicast") {
		t.Errorf("a report of a run in which no switch learned:\n%s", &b)
	}
	for i := range 14 {
		r.Switches = append(r.Switches, status.Switch{Name: fmt.Sprint("s", i), Unknown: 11, Entries: 12, Learned: 13, Moved: 14, Aged: 15, Flushed: 16, Full: 17})
	}
	b.Reset()
	r.Write(&b)
	if lines := strings.Split(b.String(), "\n"); !strings.Contains(b.String(), "and 2 more switches") ||
		!strings.Contains(b.String(), "s11 ") || strings.Contains(b.String(), "s12 ") || strings.Join(strings.Fields(lines[3]), " ") != "s0 11 12 13 14 15 16 17" {
		t.Errorf("the report is\n%s", &b)
	}
	if idle := (status.Switch{Name: "s1", Limit: 8192}); !idle.Idle() {
		t.Error("a switch that has done nothing is not idle")
	}
	if r.Switches[0].Idle() {
		t.Error("a switch that has learned is idle")
	}
}
