package fabric

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

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
	f.guard.open = until == units.Never
	if m := &f.Plan.Measure; f.guard.open && m.End > 0 && m.Grace > 0 {
		until = m.End + m.Grace
	}
	if err := f.runSampled(ctx, until); err != nil && !errors.Is(err, errDeadlocked) {
		return fmt.Errorf("stopped at %.6gs of emulated time: %w", f.Now().Seconds(), err)
	}
	if until != units.Never && !(f.guard.open && f.due() == units.Never) {
		for _, s := range f.Shards {
			s.Engine.Advance(until)
		}
	}
	f.collect(units.Never)
	return f.flowError()
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

// runShards drives the shards up to and including until.
func (f *Fabric) runShards(ctx context.Context, until units.Time) error {
	if len(f.Shards) == 1 {
		return f.runOne(ctx, until)
	}
	return f.runAll(ctx, until)
}

func (f *Fabric) runOne(ctx context.Context, until units.Time) error {
	// Looking at ctx every so often costs nothing measurable.
	const batch = 1 << 14
	s := f.Shards[0]
	for ctx.Err() == nil {
		f.tell(s)
		if s.Engine.Run(until, batch) < batch {
			return nil
		}
		if s.flows.Len() > collectAt || s.standing.asked.Load() {
			f.collect(s.Engine.Next())
		}
	}
	return ctx.Err()
}

// runAll drives several shards, each on a goroutine of its own, in windows of
// emulated time: what a shard sends in a window reaches others only after its
// end, because the links between them take that long. All meet at the end of a
// window, and the next begins with the earliest event of any.
func (f *Fabric) runAll(ctx context.Context, until units.Time) error {
	b := barrier{parties: int32(len(f.Shards))}
	// Windows use the two halves in turn, so that one may still be read while
	// the other is being written.
	var plan [2][]window
	plan[0], plan[1] = make([]window, len(f.Shards)), make([]window, len(f.Shards))
	var all sync.WaitGroup
	for i, s := range f.Shards {
		all.Add(1)
		go func() {
			defer all.Done()
			posted := units.Never
			for turn := 0; ; turn++ {
				mine := plan[turn%2]
				mine[i].next, mine[i].stop = min(s.Engine.Next(), posted), i == 0 && ctx.Err() != nil
				mine[i].flows = s.flows.Len()
				if i == 0 && s.standing.asked.Load() {
					mine[i].flows += collectAt // Progress tells of those that are collected
				}
				b.wait()
				start, flows := units.Never, 0
				for k := range mine {
					start = min(start, mine[k].next)
					flows += mine[k].flows
				}
				if flows > collectAt {
					if i == 0 {
						f.collect(start)
					}
					b.wait()
				}
				s.Collect()
				f.tell(s)
				if mine[0].stop || start > until || start == units.Never {
					return
				}
				end := until
				if f.lookahead != units.Never {
					end = min(start+f.lookahead-1, until)
				}
				s.Engine.Run(end, math.MaxInt)
				posted = units.Never
				s.Post(func(_ int, earliest units.Time) { posted = min(posted, earliest) })
			}
		}()
	}
	all.Wait()
	return ctx.Err()
}

// window is what one shard contributes to the choice of the next window.
type window struct {
	next  units.Time // its earliest event, or the earliest it has posted
	stop  bool
	flows int      // events of flows that wait to be collected
	_     [40]byte // a cache line for each
}

// barrier lets parties wait for each other. Windows are microseconds long, so
// they spin; where there are fewer cores than parties they soon give way.
type barrier struct {
	parties int32
	_       [60]byte
	waiting atomic.Int32
	_       [60]byte
	turn    atomic.Uint32
}

func (b *barrier) wait() {
	turn := b.turn.Load()
	if b.waiting.Add(1) == b.parties {
		b.waiting.Store(0)
		b.turn.Add(1)
		return
	}
	for i := 0; b.turn.Load() == turn; i++ {
		switch {
		case i > 50_000: // the other has lost its core: it may have this one
			time.Sleep(10 * time.Microsecond)
		case i > 5000:
			runtime.Gosched()
		}
	}
}
