package parallel

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// maxWindow bounds a window if nothing else does, so that a run notices its end and
// flows are collected.
const maxWindow = units.Millisecond

// soloBatch is the number of events after which a single worker may end a window.
const soloBatch = 1 << 14

// Tasks is what workers do besides running engines. All are called once a window or less.
type Tasks struct {
	// Waiting returns how much waits in a shard to be collected, and Collect collects it
	// from all shards, if there is more than MaxWaiting in all, before anything happens
	// at start or later. One worker collects while none runs.
	Waiting    func(shard int) int
	MaxWaiting int
	Collect    func(start units.Time)
	// Report is called for each shard by its worker when it has taken over what others have
	// sent.
	Report func(shard int)
}

// Workers runs shards, each worker in a thread. Their number is the one that is fastest at
// the moment, at most one for each shard. A worker runs the shards whose numbers, modulo the
// number of workers, equal its own.
type Workers struct {
	shards  []*Shard
	tasks   Tasks
	ctx     context.Context
	until   units.Time
	span    units.Time // of a window
	batch   int        // events of a shard after which a window may end
	turns   bool       // a window runs one colour
	barrier barrier
	others  sync.WaitGroup // all but the first
	worked  time.Duration  // so far, in all runs
	looks   looks          // when to call Choose
	next    int            // workers from the next window on
	// Choose returns the number of workers to use after so much work, in which so many
	// events were handled. Tests replace it.
	Choose func(worked time.Duration, events uint64) int
	// Windows use the two halves in turn, so that one may still be read while
	// the other is being written.
	plan [2][]window
}

// NewWorkers returns the workers of shards.
func NewWorkers(shards []*Shard, tasks Tasks) *Workers {
	n := len(shards)
	w := &Workers{shards: shards, tasks: tasks, next: n, Choose: newTuner(n).look, plan: [2][]window{make([]window, n), make([]window, n)}}
	w.barrier.init()
	return w
}

// Run has the workers drive the shards up to and including until, or until ctx ends, whose
// error it returns. Lookahead is the least time that a packet takes from one shard to
// another. Several shards must be of NewProcesses. The run proceeds in windows of emulated
// time: what a worker sends in a window reaches others only after its end,
// because the links between them take that long (conservative synchronisation: Chandy and
// Misra, 1979). All workers meet at the end of a window, and the next begins with the
// earliest event of any. In a window, either the processes of one colour run, or each
// worker runs all its logical processes in smaller windows.
func (w *Workers) Run(ctx context.Context, until, lookahead units.Time) error {
	for _, s := range w.shards {
		s.begin()
	}
	w.ctx, w.until, w.span, w.batch = ctx, until, min(lookahead, maxWindow), math.MaxInt
	if len(w.shards) == 1 {
		w.batch = soloBatch
	}
	if w.turns = w.takesTurns(lookahead); w.turns {
		for _, s := range w.shards {
			w.span = min(w.span, s.Lookahead)
		}
	}
	w.runLeader()
	w.others.Wait()
	for _, s := range w.shards {
		s.Rest()
	}
	return ctx.Err()
}

// window is what a shard contributes to the choice of the next window.
type window struct {
	next   [2]units.Time // its earliest event, or the earliest it has sent, by colour
	stop   bool
	waits  int     // waiting to be collected
	short  uint64  // kinds of packets that its pool would take from others
	events uint64  // handled so far
	active int     // of the first shard: number of workers from this window on
	_      [8]byte // a cache line for each
}

// runLeader runs the first worker, which starts alone and makes others join it.
func (w *Workers) runLeader() {
	began := time.Now()
	defer func() { w.worked += time.Since(began) }()
	active := 1
	for turn := 0; ; turn++ {
		if w.looks.due() && turn > 0 {
			now := w.worked + time.Since(began)
			w.next = w.Choose(now, w.handled(turn-1))
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
func (w *Workers) join(active, turn int) {
	for k := active; k < w.next; k++ {
		w.others.Go(func() { w.runFollower(k, turn) })
	}
}

// runFollower runs another worker, from the window at which it joins to the one at which it
// leaves.
func (w *Workers) runFollower(worker, turn int) {
	for active := w.active(turn); worker < active && w.window(worker, turn); {
		turn++
		w.announce(worker, active, turn)
		active = w.syncWorkers(active, turn)
	}
}

// syncWorkers waits for the announcements of the workers so far, and returns how many there are from
// now on. Workers that leave do not wait again, so all wait until those have read the new
// number.
func (w *Workers) syncWorkers(before, turn int) (active int) {
	w.barrier.wait(before)
	if active = w.active(turn); active < before {
		w.barrier.wait(before)
	}
	return active
}

// active returns the number of workers from a window on.
func (w *Workers) active(turn int) int { return w.plan[turn%2][0].active }

// handled returns how many events had been handled when a window began.
func (w *Workers) handled(turn int) (n uint64) {
	for i := range w.plan[turn%2] {
		n += w.plan[turn%2][i].events
	}
	return n
}

// announce contributes the shards of a worker to the choice of a window.
func (w *Workers) announce(worker, active, turn int) {
	plan := w.plan[turn%2]
	for k := worker; k < len(plan); k += active {
		s, mine := w.shards[k], &plan[k]
		mine.next, mine.waits, mine.short, mine.events = s.next(), w.tasks.Waiting(k), s.Pool.ScarceKinds(), s.handled
		if k == 0 {
			mine.stop = w.ctx.Err() != nil
		}
	}
}

// window runs a worker's shards for the window that all have chosen, and reports whether
// there was one.
func (w *Workers) window(worker, turn int) bool {
	plan, active := w.plan[turn%2], w.active(turn)
	next, waits := [2]units.Time{units.Never, units.Never}, 0
	for k := range plan {
		next[0], next[1] = min(next[0], plan[k].next[0]), min(next[1], plan[k].next[1])
		waits += plan[k].waits
	}
	start := min(next[0], next[1])
	if waits > w.tasks.MaxWaiting {
		if worker == 0 {
			w.tasks.Collect(start)
		}
		w.barrier.wait(active)
	}
	goOn := !plan[0].stop && start <= w.until && start != units.Never
	c, to := turnOf(next, w.span)
	for k := worker; k < len(plan); k += active {
		s := w.shards[k]
		s.receive(turn)
		w.tasks.Report(k)
		if !goOn {
			continue
		}
		s.trade(w.shards, turn, plan)
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
func (w *Workers) takesTurns(lookahead units.Time) bool {
	if len(w.shards) == 1 {
		return false
	}
	for _, s := range w.shards {
		if !s.coloured || s.fences || lookahead >= 2*s.Lookahead {
			return false
		}
	}
	return true
}
