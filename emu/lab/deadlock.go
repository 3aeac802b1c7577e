package lab

import (
	"context"
	"errors"
	"time"

	"github.com/weftlab/weft/emu/status"
)

// deadlockPeriod is the interval between checks for deadlocks in a lab that
// pauses. It is short enough to find them before a watchdog with the usual 200
// ms ends them.
const deadlockPeriod = 50 * time.Millisecond

// watchDeadlocks reports each deadlock to warn until ctx ends or the engine
// stops.
func (l *Lab) watchDeadlocks(ctx context.Context, warn func(error)) {
	if !l.fabric.Pauses() {
		return
	}
	tick := time.NewTicker(deadlockPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.stopped:
			return
		case <-tick.C:
		}
		var found []status.Deadlock
		if l.doStopped(func() { found = l.fabric.CheckDeadlocks() }) != nil {
			return
		}
		for i := range found {
			warn(errors.New(found[i].Text()))
		}
	}
}
