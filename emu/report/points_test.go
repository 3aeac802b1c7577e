package report

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/gauge"
)

// TestWritePoints: each queue with a congestion point has a line with its gauges in their
// units, and ports without one have none.
func TestWritePoints(t *testing.T) {
	var b strings.Builder
	WritePoints(&b, []status.Port{{Name: "s1:1"}})
	if b.String() != "" {
		t.Errorf("without a congestion point: %q", b.String())
	}
	WritePoints(&b, []status.Port{
		{Name: "s1:1"},
		{Name: "s1:2", Gauges: []gauge.Value{{Name: "mark_probability", Unit: gauge.Share, Value: 0.25}}},
		{Name: "s1:3", Classes: []status.Class{{Name: "default"}, {Name: "bulk", Gauges: []gauge.Value{{Name: "dropping", Unit: gauge.YesNo, Value: 1}, {Name: "count", Value: 3}}}}},
	})
	want := `
PORT  CLASS  CONGESTION POINT
s1:2  -      mark probability 25%
s1:3  bulk   dropping yes, count 3
`
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
