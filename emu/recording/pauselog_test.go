package recording

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/observe/pauses"
	"github.com/weftlab/weft/sim/units"
)

// TestPauseLog_MatchesTheCounters: the recorded pauses match the counters, including the
// times, with any number of workers.
func TestPauseLog_MatchesTheCounters(t *testing.T) {
	var first []pauses.Record
	for _, workers := range []int{1, 2, 4} {
		f, err := fabric.NewWithWorkers(fabrictest.ParseFile(t, "scripts/labs/incast-pfc.yaml", 1, "10MB", "3MB"), workers)
		if err != nil {
			t.Fatal(err)
		}
		log := LogPauses(f)
		runTo(t, f, units.Never)
		all := log.Records()
		sum := map[string]float64{}
		for _, r := range all {
			if r.Class != "roce" || r.Priority != 3 || r.Peer == "" || r.Node == "" || !r.Ended || r.End <= r.Start {
				t.Fatalf("%+v", r)
			}
			sum[r.Port] += r.End - r.Start
		}
		paused := 0
		for _, s := range f.Status() {
			for _, c := range s.Classes {
				if c.PausedTime == 0 {
					continue
				}
				paused++
				if math.Abs(sum[s.Name]-c.PausedTime.Seconds()) > 1e-11 {
					t.Errorf("%d workers: %s was paused for %v, by its records %gs", workers, s.Name, c.PausedTime, sum[s.Name])
				}
			}
		}
		if paused != len(sum) || paused < 3 {
			t.Errorf("%d workers: %d ports were paused, %d have records", workers, paused, len(sum))
		}
		if first == nil {
			first = all
		} else if diff := cmp.Diff(first, all); diff != "" {
			t.Errorf("%d workers give other records (-1 shard):\n%s", workers, diff)
		}
	}
}

// TestPauseLog_EndsOpenPausesWithTheRun: a pause that has not ended lasts to the end of the
// run.
func TestPauseLog_EndsOpenPausesWithTheRun(t *testing.T) {
	f := fabric.New(fabrictest.ParseFile(t, "scripts/labs/incast-pfc.yaml", 1))
	log := LogPauses(f)
	runTo(t, f, 500*units.Microsecond)
	open := 0
	for _, r := range log.Records() {
		if !r.Ended {
			open++
			if math.Abs(r.End-500e-6) > 1e-12 {
				t.Errorf("%+v", r)
			}
		}
	}
	if open == 0 {
		t.Error("all pauses have ended")
	}
}
