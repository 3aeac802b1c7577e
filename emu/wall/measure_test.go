package wall

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// No sleep is shorter than requested, which would count as 0 late, and all are counted.
func TestOversleep_CountsEverySleep(t *testing.T) {
	err := OnThread(Ordinary, func() error {
		s, err := MeasureOversleep(100*units.Microsecond, 20)
		if s.Count != 20 || s.P50 <= 0 || s.Max < s.P99 || s.P99 < s.P50 {
			t.Errorf("%+v", s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The function runs on its own thread with the requested scheduling, or not at all, and
// its error is returned.
func TestOnThread_RunsWithTheRequestedScheduling(t *testing.T) {
	want := errors.New("f's")
	for s, policy := range map[Scheduling]uint32{Ordinary: unix.SCHED_NORMAL, Busy: unix.SCHED_NORMAL, Realtime: unix.SCHED_FIFO} {
		ran := false
		err := OnThread(s, func() error {
			ran = true
			a, err := unix.SchedGetAttr(0, 0)
			if err != nil {
				return err
			}
			if a.Policy != policy || (a.Nice < 0) != (s == Busy) {
				t.Errorf("scheduling %d: policy %d, nice %d", s, a.Policy, a.Nice)
			}
			return want
		})
		if ran != errors.Is(err, want) {
			t.Errorf("scheduling %d: ran %v, error %v", s, ran, err)
		}
		if !ran {
			t.Logf("scheduling %d: %v", s, err)
		}
	}
}
