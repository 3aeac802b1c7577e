package fabric

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

// labFile reads a lab that comes with weft, with another seed and with parts of
// its text replaced: old, new, old, new, ...
func labFile(t testing.TB, path string, seed int, changes ...string) *plan.Plan {
	t.Helper()
	b, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s does not say %q", path, changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return parse(t, fmt.Sprintf("seed: %d\n%s", seed, text))
}

func runTo(t testing.TB, f *Fabric, until units.Time) {
	t.Helper()
	if err := f.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
}

// goodputs runs a fabric until the given time and returns the payload rate of
// each transfer since now, in Gb/s.
func goodputs(t testing.TB, f *Fabric, until units.Time) map[string]float64 {
	t.Helper()
	from, before := f.Now(), f.Transfers()
	runTo(t, f, until)
	got := map[string]float64{}
	for i, r := range f.Transfers() {
		got[r.Transfer] = 8e-9 * float64(r.Received-before[i].Received) / (until - from).Seconds()
	}
	return got
}

// jain returns Jain's fairness index.
func jain(x ...float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum * sum / squares / float64(len(x))
}

// pauseTotals counts the pause frames that all ports received, and the time for
// which they paused a class.
func pauseTotals(f *Fabric) (n uint64, paused units.Time) {
	for _, p := range f.Status() {
		for _, c := range p.Classes {
			n += c.PauseRx
			paused += c.PausedTime
		}
	}
	return n, paused
}

// oneEngine skips a test that takes long with the race detector, which has nothing
// to find in it: one goroutine runs one engine.
func oneEngine(t *testing.T) {
	t.Helper()
	if withRace {
		t.Skip("SKIPPED: a long run of one engine; it runs without the race detector")
	}
}
