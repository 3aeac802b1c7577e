package fabric

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/weftlab/weft/sim/units"
)

// errDeadlocked ends a run in which nothing is left to happen but a deadlock.
var errDeadlocked = errors.New("nothing is left but a deadlock")

// Run drives the fabric in virtual time up to and including until, or until
// nothing is left to happen. It stops early when ctx ends, with its error. A
// fabric that pauses is looked at for deadlocks every so often; where nothing
// is left but one of them and until is units.Never, that ends the run.
//
// Records of flows of patterns go to their sink (SetFlowSink) meanwhile. With a
// measurement window that ends, a run without another end ends when its grace is over, or
// before, when nothing is left to happen.
func (f *Fabric) Run(ctx context.Context, until units.Time) error {
	if len(f.Shards) > 1 && !f.Shards[0].parallel {
		return errors.New("a fabric of several shards runs by the wall clock; in virtual time it is of NewParallel")
	}
	f.guard.open = until == units.Never
	if m := &f.Plan.Measure; f.guard.open && m.End > 0 && m.Grace > 0 {
		until = m.End + m.Grace
	}
	f.Exchange() // what has been done to it since the last run
	err := f.runSampled(ctx, until)
	// Processes have come to a stop at the end of a window, each with its own last
	// event. What is told of a node afterwards is told as of one time for all.
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

// advanceTo moves the time of all shards forward. They have done everything that is due
// before.
func (f *Fabric) advanceTo(at units.Time) {
	for _, s := range f.Shards {
		s.advance(at)
	}
}

// guard looks for deadlocks while a fabric runs.
type guard struct {
	pauses    bool       // the fabric may have some
	open      bool       // the run ends when nothing is left to happen, if not before
	next      units.Time // when to look
	delivered uint64     // packets to hosts, when more had come than before
	progress  units.Time // when that was
}

// run drives the shards up to and including until, and looks for deadlocks.
// Time stays that of the last event.
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

// maxWindow bounds a window where nothing else does, so that a run hears of its end and
// flows are collected.
const maxWindow = units.Millisecond

// soloBatch is after how many events a single worker looks up.
const soloBatch = 1 << 14

// runShards drives the shards up to and including until, each by a worker of its own, in
// windows of emulated time: what a worker sends in a window reaches others only after its
// end, because the links between them take that long (conservative synchronisation: Chandy
// and Misra, 1979). All workers meet at the end of a window, and the next begins with the
// earliest event of any. Either it is the turn of the processes of one colour, or each
// worker runs all its logical processes in windows of their own.
func (f *Fabric) runShards(ctx context.Context, until units.Time) error {
	f.Exchange()
	for _, s := range f.Shards {
		s.begin()
	}
	w := f.crew
	w.ctx, w.until, w.span, w.batch = ctx, until, min(f.lookahead, maxWindow), math.MaxInt
	if len(f.Shards) == 1 {
		w.batch = soloBatch
	}
	if w.turns = f.takesTurns(); w.turns {
		for _, s := range f.Shards {
			w.span = min(w.span, s.lookahead)
		}
	}
	for _, s := range f.Shards[1:] {
		w.others.Go(func() { w.work(s) })
	}
	w.work(f.Shards[0])
	w.others.Wait()
	for _, s := range f.Shards {
		s.rest()
	}
	return ctx.Err()
}

// crew is the workers of a fabric, which run its shards.
type crew struct {
	fabric  *Fabric
	ctx     context.Context
	until   units.Time
	span    units.Time // of a window
	batch   int        // events of a shard after which a window may end
	turns   bool       // a window is one colour's
	barrier barrier
	others  sync.WaitGroup // all but the first
	// Windows use the two halves in turn, so that one may still be read while
	// the other is being written.
	plan [2][]window
}

func newCrew(f *Fabric) *crew {
	n := len(f.Shards)
	c := &crew{fabric: f, plan: [2][]window{make([]window, n), make([]window, n)}}
	c.barrier.init(n)
	return c
}

// window is what one worker contributes to the choice of the next window.
type window struct {
	next  [2]units.Time // its earliest event, or the earliest it has sent, by colour
	stop  bool
	flows int      // events of flows that wait to be collected
	short uint64   // kinds of packets that its pool would take from others
	_     [24]byte // a cache line for each
}

// work runs a shard.
func (w *crew) work(s *Shard) {
	f, first := w.fabric, s.Number == 0
	for turn := 0; ; turn++ {
		plan := w.plan[turn%2]
		mine := &plan[s.Number]
		mine.next, mine.stop, mine.flows, mine.short = s.next(), first && w.ctx.Err() != nil, s.flows.Len(), s.Pool.Short()
		if first && s.standing.asked.Load() {
			mine.flows += collectAt // Progress tells of those that are collected
		}
		w.barrier.wait()
		next, flows := [2]units.Time{units.Never, units.Never}, 0
		for k := range plan {
			next[0], next[1] = min(next[0], plan[k].next[0]), min(next[1], plan[k].next[1])
			flows += plan[k].flows
		}
		start := min(next[0], next[1])
		if flows > collectAt {
			if first {
				f.collect(start)
			}
			w.barrier.wait()
		}
		s.receive(turn)
		f.tell(s)
		if plan[0].stop || start > w.until || start == units.Never {
			return
		}
		s.trade(f.Shards, turn, plan)
		if w.turns {
			c, to := turnOf(next, w.span)
			s.far = 1 - c
			s.runWindow(c, min(to, w.until))
			continue
		}
		s.run(min(start+w.span-1, w.until), w.batch)
	}
}

// takesTurns tells whether workers meet after each colour's turn. They do where the links
// between them are hardly longer than others: else a worker runs several windows of its own
// in the time that it has until others hear of it. Nor do they where something may happen
// to a shard as a whole, for which all its processes have to be at the same point.
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
