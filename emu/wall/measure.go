package wall

import (
	"fmt"
	"runtime"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// Scheduling is how the kernel schedules the engine's thread: Realtime while it
// leaves time to others, Busy while it does not.
type Scheduling int

// Kinds of scheduling.
const (
	Ordinary Scheduling = iota
	Busy                // the highest nice level
	Realtime            // SCHED_FIFO
)

// OnThread runs f on a thread that is set up like the engine's and ends with f,
// for measuring what the engine can do. If the set-up fails because the
// scheduling is not permitted, it returns an error without running f.
func OnThread(s Scheduling, f func() error) error {
	done := make(chan error)
	go func() { done <- runPrepared(s, f) }() // never unlocked: the thread ends with the goroutine
	return <-done
}

func runPrepared(s Scheduling, f func() error) error {
	if err := lockThread(); err != nil {
		return err
	}
	set := map[Scheduling]func() error{Busy: setNice, Realtime: setFIFO}[s]
	if set != nil {
		if err := set(); err != nil {
			return fmt.Errorf("scheduling: %w (grant CAP_SYS_NICE or an rtprio limit)", err)
		}
	}
	return f()
}

// MeasureOversleep sleeps n times for span as the engine does and returns the
// distribution of how much longer each sleep took. It must be called in
// OnThread.
func MeasureOversleep(span units.Time, n int) (status.Lateness, error) {
	ep, err := newEpoll()
	if err != nil {
		return status.Lateness{}, fmt.Errorf("epoll: %w", err)
	}
	defer ep.closeEpoll()
	runtime.GC() // so that none happens during the measurement
	late, clock := newLateness(units.Never), NewClock(1)
	for range n {
		due := clock.Now() + span
		for left := span; left > 0; left = due - clock.Now() { // a signal ends a wait early
			ep.wait(int64(left / units.Nanosecond))
		}
		late.recordDelivery(clock.Now()-due, 1)
	}
	return late.summarize(), nil
}
