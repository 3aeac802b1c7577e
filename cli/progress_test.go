package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/emu/run"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// TestProgressText_ShowsPaceAndRest of a run.
func TestProgressText_ShowsPaceAndRest(t *testing.T) {
	ends := func(at units.Time) run.Horizon { return run.Horizon{Until: at} }
	window := run.Horizon{Until: 10 * units.Second, Open: true, Latest: 30 * units.Second}
	for _, c := range []struct {
		now   units.Time
		until run.Horizon
		pace  pace
		flows uint64
		want  string
	}{
		{0, ends(10 * units.Second), pace{}, 0, "0s of 10s (0%)"},
		{2500 * units.Millisecond, ends(10 * units.Second), pace{0.5, 4.125e6}, 0, "2.5s of 10s (25%)  15s left  4.12 million hops/s"},
		{10 * units.Second, ends(10 * units.Second), pace{0.5, 1e6}, 0, "10s of 10s (100%)  0s left  1 million hops/s"},
		{units.Second, run.Horizon{Open: true}, pace{0.5, 2e4}, 0, "1s  0.02 million hops/s"},
		{units.Second, run.Horizon{Open: true}, pace{0.5, 2e4}, 1234, "1s  0.02 million hops/s  1234 flows done"},
		{units.Millisecond, ends(units.Hour), pace{1e-3, 1e6}, 0, "0.001s of 3600s (0%)  999h59m59s left  1 million hops/s"},
		{units.Second, window, pace{0.5, 1e6}, 7, "1s of 10s (10%)  18s left, then the last flows  1 million hops/s  7 flows done"},
		{20 * units.Second, window, pace{0.5, 1e6}, 8, "20s, the last flows  at most 20s left  1 million hops/s  8 flows done"},
		{20 * units.Second, run.Horizon{Until: 10 * units.Second, Open: true}, pace{0.5, 1e6}, 8, "20s, the last flows  1 million hops/s  8 flows done"},
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
	l := &progressLine{w: &seen, columns: func() int { return 30 }, until: run.Horizon{Until: 4 * units.Second}, at: start}
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
