package fabric

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftlab/weft/emu/parallel"
	"github.com/weftlab/weft/sim/units"
)

// errDeadlocked ends a run in which nothing is left to happen but a deadlock.
var errDeadlocked = errors.New("only a deadlock is left")

// Run drives the fabric in virtual time up to and including until, or until nothing is
// left to happen. It stops early when ctx ends, with its error. In a fabric with pauses
// it checks for deadlocks every so often. If only a deadlock is left and until is
// units.Never, that ends the run.
//
// Meanwhile, records of pattern flows go to their sink (SetFlowSink). With a measurement
// window that ends, a run without another end stops when its grace period is over, or
// earlier when nothing is left to happen.
func (f *Fabric) Run(ctx context.Context, until units.Time) error {
	if len(f.Shards) > 1 && !f.Shards[0].IsParallel() {
		return errors.New("a fabric with several shards runs in wall-clock time; in virtual time use NewParallel")
	}
	f.guard.open = until == units.Never
	if m := &f.Plan.Measure; f.guard.open && m.End > 0 && m.Grace > 0 {
		until = m.End + m.Grace
	}
	f.Exchange() // changes since the last run
	err := f.runSampled(ctx, until)
	// Processes stop at the end of a window, each at its own last event. Readings
	// after the run are for one time at all nodes.
	f.advanceTo(f.Now())
	if err != nil && !errors.Is(err, errDeadlocked) {
		return fmt.Errorf("stopped at %.6gs of emulated time: %w", f.Now().Seconds(), err)
	}
	if until != units.Never && !(f.guard.open && f.due() == units.Never) {
		f.advanceTo(until)
	}
	f.collectBefore(units.Never)
	return f.flowError()
}

// Shrink releases memory that only a run needs: free packets, and room for packets under way.
// It is for callers that only look at a fabric after its run; another run allocates what it
// needs.
func (f *Fabric) Shrink() {
	for _, s := range f.Shards {
		s.Shrink()
	}
	for _, dir := range f.Links {
		for _, l := range dir {
			l.ReleaseMemory()
		}
	}
}

// advanceTo moves the time of all shards forward. They have already done everything
// that is due before.
func (f *Fabric) advanceTo(at units.Time) {
	for _, s := range f.Shards {
		s.Advance(at)
	}
}

// guard looks for deadlocks while a fabric runs.
type guard struct {
	pauses    bool       // the fabric may pause
	open      bool       // the run ends when nothing is left to happen, if not before
	next      units.Time // time of the next check
	delivered uint64     // packets to hosts at the last progress
	progress  units.Time // time of the last progress
}

// run drives the shards up to and including until, and looks for deadlocks.
// Time stays at the last event.
func (f *Fabric) run(ctx context.Context, until units.Time) error {
	g := &f.guard
	if !g.pauses {
		return f.runShards(ctx, until)
	}
	for {
		due := f.due()
		if due > until || due == units.Never {
			return nil
		}
		end := min(max(due, g.next), until)
		if err := f.runShards(ctx, end); err != nil {
			return err
		}
		if end < g.next {
			continue
		}
		g.next = end + deadlockCheck
		f.CheckDeadlocks()
		switch n := f.delivered(); {
		case n != g.delivered || !f.locked():
			g.delivered, g.progress = n, end
		case g.open && end-g.progress >= stalled:
			return errDeadlocked
		}
	}
}

// newWorkers returns the workers of the fabric, which collect flows and report progress.
func (f *Fabric) newWorkers() *parallel.Workers {
	shards := make([]*parallel.Shard, len(f.Shards))
	for i, s := range f.Shards {
		shards[i] = s.Shard
	}
	return parallel.NewWorkers(shards, parallel.Tasks{
		Waiting: f.waitingFlows, MaxWaiting: collectAt, Collect: f.collectBefore,
		Report: func(shard int) { f.reportProgress(f.Shards[shard]) },
	})
}

// waitingFlows returns how many events of flows wait in a shard to be collected: more than
// collectAt if they are to be collected at once.
func (f *Fabric) waitingFlows(shard int) int {
	s := f.Shards[shard]
	if shard == 0 && s.standing.requested.Load() {
		return s.flows.Len() + collectAt // Progress reports only collected flows
	}
	return s.flows.Len()
}

// runShards has the workers drive the shards up to and including until.
func (f *Fabric) runShards(ctx context.Context, until units.Time) error {
	f.Exchange()
	return f.workers.Run(ctx, until, f.lookahead)
}
