package fabric

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

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
	if len(f.Shards) > 1 && !f.Shards[0].parallel {
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
	f.collect(units.Never)
	return f.flowError()
}

// Shrink releases memory that only a run needs: free packets, and room for packets under way.
// It is for callers that only look at a fabric after its run; another run allocates what it
// needs.
func (f *Fabric) Shrink() {
	for _, s := range f.Shards {
		s.Pool.DropFree()
		for _, p := range s.processes {
			if p.inbox != nil {
				p.inbox.Shrink()
			}
		}
		for _, o := range s.virtualPeers.out {
			if o != nil {
				o.Shrink()
			}
		}
	}
	for _, dir := range f.Links {
		for _, l := range dir {
			l.Shrink()
		}
	}
}

// advanceTo moves the time of all shards forward. They have already done everything
// that is due before.
func (f *Fabric) advanceTo(at units.Time) {
	for _, s := range f.Shards {
		s.advance(at)
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

// maxWindow bounds a window if nothing else does, so that a run notices its end and
// flows are collected.
const maxWindow = units.Millisecond

// soloBatch is the number of events after which a single worker may end a window.
const soloBatch = 1 << 14

// runShards has the workers drive the shards up to and including until, in windows of
// emulated time: what a worker sends in a window reaches others only after its end,
// because the links between them take that long (conservative synchronisation: Chandy and
// Misra, 1979). All workers meet at the end of a window, and the next begins with the
// earliest event of any. In a window, either the processes of one colour run, or each
// worker runs all its logical processes in smaller windows.
func (f *Fabric) runShards(ctx context.Context, until units.Time) error {
	f.Exchange()
	for _, s := range f.Shards {
		s.begin()
	}
	w := f.workers
	w.ctx, w.until, w.span, w.batch = ctx, until, min(f.lookahead, maxWindow), math.MaxInt
	if len(f.Shards) == 1 {
		w.batch = soloBatch
	}
	if w.turns = f.takesTurns(); w.turns {
		for _, s := range f.Shards {
			w.span = min(w.span, s.lookahead)
		}
	}
	w.lead()
	w.others.Wait()
	for _, s := range f.Shards {
		s.rest()
	}
	return ctx.Err()
}

// workerPool is the workers of a fabric. Their number is the one that runs it fastest at the
// moment, at most one for each shard. A worker runs the shards whose numbers, modulo the
// number of workers, equal its own.
type workerPool struct {
	fabric  *Fabric
	ctx     context.Context
	until   units.Time
	span    units.Time // of a window
	batch   int        // events of a shard after which a window may end
	turns   bool       // a window runs one colour
	barrier barrier
	others  sync.WaitGroup // all but the first
	worked  time.Duration  // so far, in all runs
	looks   looks          // when to call choose
	next    int            // workers from the next window on
	// choose returns the number of workers to use after so much work, in which so many
	// events were handled.
	choose func(worked time.Duration, events uint64) int
	// Windows use the two halves in turn, so that one may still be read while
	// the other is being written.
	plan [2][]window
}

func newCrew(f *Fabric) *workerPool {
	n := len(f.Shards)
	c := &workerPool{fabric: f, next: n, choose: newTuner(n).look, plan: [2][]window{make([]window, n), make([]window, n)}}
	c.barrier.init()
	return c
}

// window is what a shard contributes to the choice of the next window.
type window struct {
	next   [2]units.Time // its earliest event, or the earliest it has sent, by colour
	stop   bool
	flows  int     // events of flows waiting to be collected
	short  uint64  // kinds of packets that its pool would take from others
	events uint64  // handled so far
	active int     // of the first shard: number of workers from this window on
	_      [8]byte // a cache line for each
}

// lead runs the first worker, which starts alone and makes others join it.
func (w *workerPool) lead() {
	began := time.Now()
	defer func() { w.worked += time.Since(began) }()
	active := 1
	for turn := 0; ; turn++ {
		if w.looks.due() && turn > 0 {
			now := w.worked + time.Since(began)
			w.next = w.choose(now, w.handled(turn-1))
			w.looks.looked(now)
		}
		w.announce(0, active, turn)
		w.plan[turn%2][0].active = w.next
		w.syncWorkers(active, turn)
		w.join(active, turn)
		active = w.next
		if !w.window(0, turn) {
			return
		}
	}
}

// join starts workers at a window until there are w.next.
func (w *workerPool) join(active, turn int) {
	for k := active; k < w.next; k++ {
		w.others.Go(func() { w.follow(k, turn) })
	}
}

// follow runs another worker, from the window at which it joins to the one at which it
// leaves.
func (w *workerPool) follow(worker, turn int) {
	for active := w.active(turn); worker < active && w.window(worker, turn); {
		turn++
		w.announce(worker, active, turn)
		active = w.syncWorkers(active, turn)
	}
}

// syncWorkers waits for the announcements of the workers so far, and returns how many there are from
// now on. Workers that leave do not wait again, so all wait until those have read the new
// number.
func (w *workerPool) syncWorkers(before, turn int) (active int) {
	w.barrier.wait(before)
	if active = w.active(turn); active < before {
		w.barrier.wait(before)
	}
	return active
}

// active returns the number of workers from a window on.
func (w *workerPool) active(turn int) int { return w.plan[turn%2][0].active }

// handled returns how many events had been handled when a window began.
func (w *workerPool) handled(turn int) (n uint64) {
	for i := range w.plan[turn%2] {
		n += w.plan[turn%2][i].events
	}
	return n
}

// announce contributes the shards of a worker to the choice of a window.
func (w *workerPool) announce(worker, active, turn int) {
	plan := w.plan[turn%2]
	for k := worker; k < len(plan); k += active {
		s, mine := w.fabric.Shards[k], &plan[k]
		mine.next, mine.flows, mine.short, mine.events = s.next(), s.flows.Len(), s.Pool.Short(), s.handled
		if k > 0 {
			continue
		}
		mine.stop = w.ctx.Err() != nil
		if s.standing.requested.Load() {
			mine.flows += collectAt // Progress reports only collected flows
		}
	}
}

// window runs a worker's shards for the window that all have chosen, and reports whether
// there was one.
func (w *workerPool) window(worker, turn int) bool {
	f, plan, active := w.fabric, w.plan[turn%2], w.active(turn)
	next, flows := [2]units.Time{units.Never, units.Never}, 0
	for k := range plan {
		next[0], next[1] = min(next[0], plan[k].next[0]), min(next[1], plan[k].next[1])
		flows += plan[k].flows
	}
	start := min(next[0], next[1])
	if flows > collectAt {
		if worker == 0 {
			f.collect(start)
		}
		w.barrier.wait(active)
	}
	goOn := !plan[0].stop && start <= w.until && start != units.Never
	c, to := turnOf(next, w.span)
	for k := worker; k < len(plan); k += active {
		s := f.Shards[k]
		s.receive(turn)
		f.reportProgress(s)
		if !goOn {
			continue
		}
		s.trade(f.Shards, turn, plan)
		if w.turns {
			s.far = 1 - c
			s.runWindow(c, min(to, w.until))
		} else {
			s.run(min(start+w.span-1, w.until), w.batch)
		}
	}
	return goOn
}

// takesTurns reports whether workers meet after each colour's turn. They do if the links
// between them are hardly longer than others; otherwise a worker runs several of its own
// windows before others can hear from it. They do not if something may happen to a shard as
// a whole, which requires all its processes to be at the same point.
func (f *Fabric) takesTurns() bool {
	if len(f.Shards) == 1 {
		return false
	}
	for _, s := range f.Shards {
		if !s.coloured || s.fences || f.lookahead >= 2*s.lookahead {
			return false
		}
	}
	return true
}
