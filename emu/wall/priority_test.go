package wall

import (
	"runtime"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// The thread gives up SCHED_FIFO while it leaves no time to others and takes it again
// when it does.
func TestPriority_StepsBackUnderLoad(t *testing.T) {
	refused := make(chan error)
	go func() { // on its own thread, as its scheduling changes
		defer close(refused)
		runtime.LockOSThread()
		var p priority
		if err := p.raisePriority(); err != nil {
			refused <- err
			return
		}
		now := units.Time(0)
		turn := func(load units.Time) { // a period of turns of 1 ms
			for range 101 {
				now += units.Millisecond
				p.adjustPriority(now, units.Millisecond*(100-load)/100)
			}
		}
		for i, step := range []struct {
			load units.Time
			fifo bool
		}{{10, true}, {60, true}, {90, false}, {60, false}, {99, false}, {20, true}} {
			if turn(step.load); p.fifo != step.fifo {
				t.Errorf("step %d, load %d%%: SCHED_FIFO is %v, want %v", i, step.load, p.fifo, step.fifo)
			}
		}
	}()
	if err := <-refused; err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
}
