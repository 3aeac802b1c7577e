package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

// step is one statement of a random program.
type step struct {
	do string
	n  int        // a condition, a handler, a process, a program
	t  units.Time // how long, or when
}

const conds, handlers = 2, 3

func drawProgram(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		do := rapid.SampledFrom([]string{"sleep", "sleep", "until", "wait", "wait", "signal", "broadcast", "arm", "go", "stop"}).Draw(t, "do")
		in := units.Time(rapid.IntRange(-1, 6).Draw(t, "t"))
		if in == 6 && do != "arm" {
			in = units.Never
		}
		return step{do, rapid.IntRange(0, 11).Draw(t, "n"), in}
	}), 0, 8).Draw(t, "program")
}

// maxSteps is the maximum number of processes that a run of random programs may start.
const maxSteps = 30

// world is the environment of random programs: an engine, or a model of it.
type world interface {
	now() units.Time
	start(program []step)
	started() int
	signal(cond int)
	broadcast(cond int)
	arm(handler int, at units.Time)
	stop(process int)
}

// act executes a statement that takes no time.
func act(w world, s step, programs [][]step) {
	switch s.do {
	case "signal":
		w.signal(s.n % conds)
	case "broadcast":
		w.broadcast(s.n % conds)
	case "arm":
		w.arm(s.n%handlers, w.now()+max(s.t, 0))
	case "go":
		if w.started() < maxSteps {
			w.start(programs[s.n%len(programs)])
		}
	case "stop":
		w.stop(s.n % w.started())
	}
}

// real is the world run by the engine.
type real struct {
	e        *Engine
	programs [][]step
	conds    [conds]Cond
	timers   []Timer
	all      []*Process
	log      []string
}

func (w *real) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%v ", w.e.Now())+fmt.Sprintf(format, args...))
}
func (w *real) now() units.Time          { return w.e.Now() }
func (w *real) started() int             { return len(w.all) }
func (w *real) signal(c int)             { w.conds[c].Signal() }
func (w *real) broadcast(c int)          { w.conds[c].Broadcast() }
func (w *real) arm(h int, at units.Time) { w.timers[h].Arm(at) }
func (w *real) stop(i int)               { w.all[i].Stop() }

// addHandler registers a handler that signals all.
func (w *real) addHandler() {
	h := len(w.timers)
	w.timers = append(w.timers, w.e.NewTimer(handlerFunc(func(units.Time) {
		w.note("handler %d", h)
		w.broadcast(h % conds)
	})))
}

type handlerFunc func(now units.Time)

func (f handlerFunc) Fire(now units.Time) { f(now) }

func (w *real) start(program []step) {
	id := len(w.all)
	w.all = append(w.all, w.e.Go(fmt.Sprint(id), func(p *Process) {
		returned := false
		defer func() {
			w.note("%d ends: %v", id, returned)
			w.conds[0].Signal()
		}()
		w.note("%d begins", id)
		for _, s := range program {
			switch s.do {
			case "sleep":
				p.Sleep(s.t)
				w.note("%d has slept", id)
			case "until":
				p.SleepUntil(s.t)
				w.note("%d goes on", id)
			case "wait":
				w.note("%d has waited: %v", id, w.conds[s.n%conds].Wait(p, s.t))
			default:
				act(w, s, w.programs)
			}
		}
		returned = true
	}))
}

// model is the world as documented: it searches for the next event.
type model struct {
	at       units.Time
	programs [][]step
	turn     int
	handlers [handlers]units.Time
	all      []*modelled
	current  *modelled
	log      []string
}

type modelled struct {
	id       int
	program  []step
	at       units.Time
	turn     int
	cond     int // on which it is waiting, or -1
	began    int // when it began to wait
	signal   bool
	begun    bool
	stopping bool
	ended    bool
	resumes  func() // its first action when it resumes
}

func (w *model) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%v ", w.at)+fmt.Sprintf(format, args...))
}
func (w *model) now() units.Time          { return w.at }
func (w *model) started() int             { return len(w.all) }
func (w *model) arm(h int, at units.Time) { w.handlers[h] = at }

func (w *model) start(program []step) {
	p := &modelled{id: len(w.all), program: program, cond: -1}
	w.all = append(w.all, p)
	w.plan(p, w.at)
}

func (w *model) plan(p *modelled, at units.Time) {
	w.turn++
	p.at, p.turn = max(at, w.at), w.turn
}

// longest returns the process that has waited on c longest.
func (w *model) longest(c int) (first *modelled) {
	for _, p := range w.all {
		if p.cond == c && !p.ended && (first == nil || p.began < first.began) {
			first = p
		}
	}
	return first
}

func (w *model) signal(c int) {
	if p := w.longest(c); p != nil {
		p.cond, p.signal = -1, true
		w.plan(p, w.at)
	}
}

func (w *model) broadcast(c int) {
	for w.longest(c) != nil {
		w.signal(c)
	}
}

func (w *model) stop(i int) {
	p := w.all[i]
	switch {
	case p.ended:
	case p == w.current:
		p.stopping = true
	case !p.begun:
		p.ended = true
	default:
		p.cond = -1
		w.end(p, false)
	}
}

func (w *model) end(p *modelled, returned bool) {
	p.ended = true
	w.note("%d ends: %v", p.id, returned)
	w.signal(0)
}

// after returns the time d from now.
func (w *model) after(d units.Time) units.Time {
	if d == units.Never {
		return d
	}
	return w.at + max(d, 0)
}

// run gives p its turn.
func (w *model) run(p *modelled) {
	w.current = p
	defer func() { w.current = nil }()
	if !p.begun {
		p.begun = true
		w.note("%d begins", p.id)
	} else {
		p.resumes()
	}
	for len(p.program) > 0 {
		s := p.program[0]
		p.program = p.program[1:]
		if !slices.Contains([]string{"sleep", "until", "wait"}, s.do) {
			act(w, s, w.programs)
			continue
		}
		if p.stopping {
			w.end(p, false)
			return
		}
		switch s.do {
		case "sleep":
			w.plan(p, w.after(s.t))
			p.resumes = func() { w.note("%d has slept", p.id) }
		case "until":
			w.plan(p, s.t)
			p.resumes = func() { w.note("%d goes on", p.id) }
		case "wait":
			w.plan(p, w.after(s.t))
			p.cond, p.began, p.signal = s.n%conds, w.turn, false
			p.resumes = func() {
				p.cond = -1
				w.note("%d has waited: %v", p.id, p.signal)
			}
		}
		return
	}
	w.end(p, true)
}

// next executes the earliest event up to limit and reports whether there was one.
func (w *model) next(limit units.Time) bool {
	at, handler := units.Never, -1
	for h, due := range w.handlers {
		if due < at {
			at, handler = due, h
		}
	}
	var next *modelled
	for _, p := range w.all {
		if !p.ended && (p.at < at || next != nil && p.at == at && p.turn < next.turn) {
			at, handler, next = p.at, -1, p
		}
	}
	if at > limit {
		return false
	}
	w.at = at
	if handler >= 0 {
		w.handlers[handler] = units.Never
		w.note("handler %d", handler)
		w.broadcast(handler % conds)
	} else {
		w.run(next)
	}
	return true
}

// TestProcessesAgainstModel: random programs that sleep, wait with and without
// a timeout, signal, start and stop each other and arm handlers, which signal
// too, do the same things in the same order as a model that searches for the next
// event; and nothing is left of them at the end.
func TestProcessesAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		programs := rapid.SliceOfN(rapid.Custom(drawProgram), 1, 5).Draw(t, "programs")
		early := rapid.IntRange(0, handlers).Draw(t, "handlers registered before the processes")
		got, want := &real{e: &Engine{}, programs: programs}, &model{programs: programs}
		for h := range handlers {
			want.handlers[h] = units.Never
		}
		for range early {
			got.addHandler()
		}
		for _, p := range programs {
			got.start(p)
			want.start(p)
		}
		for range handlers - early {
			got.addHandler()
		}
		// The engine has a limit, and is run in pieces.
		const limit = 50
		for end := units.Time(0); end <= limit; end += 10 {
			for got.e.Run(end, 3) == 3 {
				if q := got.e.queue; q.n > 500 {
					t.Fatalf("%d entries in the heap", q.n)
				}
			}
		}
		for want.next(limit) {
		}
		want.at = got.e.Now() // Run does not go beyond the last event
		got.e.StopProcesses()
		for _, p := range want.all {
			if !p.ended {
				want.stop(p.id)
			}
		}
		if !slices.Equal(got.log, want.log) {
			t.Fatalf("engine:\n%q\nmodel:\n%q", got.log, want.log)
		}
		for i, p := range got.all {
			if !p.Done() || got.e.processes.live.Len() > 0 {
				t.Errorf("process %d is left", i)
			}
		}
		for c := range got.conds {
			if n := len(got.conds[c].waiting); n > 0 {
				t.Errorf("%d processes still wait on condition %d", n, c)
			}
		}
		if due := slices.Min(want.handlers[:]); got.e.NextDue() != due {
			t.Errorf("due %v, want %v", got.e.NextDue(), due)
		}
	})
}

// TestProcessesInShards: independent groups of processes do the same on one shared
// engine as on an engine for each group.
func TestProcessesInShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const shards = 3
		var together Engine
		var one, own [shards]*real
		for i := range shards {
			programs := rapid.SliceOfN(rapid.Custom(drawProgram), 1, 4).Draw(t, "programs")
			own[i] = &real{e: &Engine{}, programs: programs}
			one[i] = &real{e: &together, programs: programs}
			for _, w := range []*real{own[i], one[i]} {
				// The first group's processes have begun when the last handlers are added.
				for _, p := range programs {
					w.start(p)
				}
				for range handlers {
					w.addHandler()
				}
			}
		}
		const limit = 50
		together.Run(limit, 1_000_000)
		together.AdvanceTo(limit)
		together.StopProcesses()
		for i, w := range own {
			w.e.Run(limit, 1_000_000)
			w.e.AdvanceTo(limit)
			w.e.StopProcesses()
			if !slices.Equal(w.log, one[i].log) {
				t.Fatalf("group %d alone:\n%q\nwith others:\n%q", i, w.log, one[i].log)
			}
		}
	})
}
