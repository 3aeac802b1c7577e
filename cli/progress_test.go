package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// TestProgressText_ShowsPaceAndRest of a run.
func TestProgressText_ShowsPaceAndRest(t *testing.T) {
	for _, c := range []struct {
		now, until units.Time
		pace       pace
		flows      uint64
		want       string
	}{
		{0, 10 * units.Second, pace{}, 0, "0s of 10s (0%)"},
		{2500 * units.Millisecond, 10 * units.Second, pace{0.5, 4.125e6}, 0, "2.5s of 10s (25%)  4.12 million hops/s  15s left"},
		{10 * units.Second, 10 * units.Second, pace{0.5, 1e6}, 0, "10s of 10s (100%)  1 million hops/s  0s left"},
		{units.Second, units.Never, pace{0.5, 2e4}, 0, "1s  0.02 million hops/s"},
		{units.Second, units.Never, pace{0.5, 2e4}, 1234, "1s  0.02 million hops/s  1234 flows done"},
		{units.Millisecond, units.Hour, pace{1e-3, 1e6}, 0, "0.001s of 3600s (0%)  1 million hops/s  999h59m59s left"},
	} {
		if got := progressText(c.now, c.until, c.pace, c.flows); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestProgressLine_FitsAndIsErased: the progress since the last one; lines do not wrap, and the
// last one is erased.
func TestProgressLine_FitsAndIsErased(t *testing.T) {
	var seen strings.Builder
	start := time.Now()
	l := &progressLine{w: &seen, columns: func() int { return 30 }, until: 4 * units.Second, at: start}
	for i, now := range []status.Progress{{}, {Now: units.Second, Hops: 1e6}, {Now: 2 * units.Second, Hops: 2e6}} {
		l.showAt(start.Add(time.Duration(i+1)*time.Second), now)
	}
	l.eraseLine()
	lines := strings.Split(seen.String(), clearLine)
	if len(lines) != 5 || lines[4] != "" || !strings.HasPrefix(lines[1], "0s of 4s (0%)") || !strings.HasPrefix(lines[3], "2s of 4s (50%)") {
		t.Errorf("%q", lines)
	}
	for _, l := range lines {
		if len(l) > 29 {
			t.Errorf("%q does not fit into 30 columns", l)
		}
	}
	(*progressLine)(nil).eraseLine() // where nothing is shown
}
