package sim

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// runAll runs all remaining events.
func runAll(e *Engine) { e.Run(units.Never-1, math.MaxInt) }

// TestProcessBeginsByAnEvent: a process does not begin inside Go, but at the same instant.
func TestProcessBeginsByAnEvent(t *testing.T) {
	var e Engine
	e.AdvanceTo(7)
	began := units.Never
	p := e.Go("p", func(p *Process) { began = p.Now() })
	if began != units.Never || p.Done() || e.NextDue() != 7 {
		t.Fatalf("began at %v inside Go, done %v, due %v", began, p.Done(), e.NextDue())
	}
	if n := e.Run(7, 10); n != 1 || began != 7 || !p.Done() || p.Err() != nil || p.Name() != "p" {
		t.Errorf("%d events, %q began at %v, done %v: %v", n, p.Name(), began, p.Done(), p.Err())
	}
}

// TestProcessesAtOneInstant: processes run after handlers, including those
// registered later or armed by a process, and among themselves in the order in which
// they were put to sleep.
func TestProcessesAtOneInstant(t *testing.T) {
	var e Engine
	var log []string
	note := func(s string) { log = append(log, fmt.Sprint(e.Now(), " ", s)) }
	handler := func(name string) Timer { return e.NewTimer(handlerFunc(func(units.Time) { note(name) })) }
	early := handler("early")
	var late Timer
	e.Go("a", func(p *Process) {
		p.Sleep(10)
		note("a")
		late.Arm(10)
	})
	e.Go("b", func(p *Process) {
		late = handler("late") // takes the processes' place while they have it
		late.Arm(10)
		early.Arm(10)
		p.Sleep(5)
		e.Go("c", func(p *Process) {
			p.SleepUntil(10)
			note("c")
		})
		p.SleepUntil(3) // in the past, so it means now
		note("b")
		p.Sleep(5)
		note("b")
		p.Sleep(0)
		note("b")
		p.Sleep(-1)
		note("b")
	})
	runAll(&e)
	want := []string{"5ps b", "10ps early", "10ps late", "10ps a", "10ps late", "10ps c", "10ps b", "10ps b", "10ps b"}
	if !slices.Equal(log, want) {
		t.Errorf("%q, want\n%q", log, want)
	}
}

// TestCond: a signal reaches a process that is waiting, not one that waits later; a
// timeout means that none has come.
func TestCond(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []units.Time
		timeout units.Time
		at      units.Time
		want    bool
	}{
		{"none", nil, 10, 15, false},
		{"before the wait", []units.Time{3}, 10, 15, false},
		{"in time", []units.Time{7}, 10, 7, true},
		{"twice", []units.Time{7, 8}, 10, 7, true},
		{"at the end", []units.Time{15}, 10, 15, true}, // from a handler, so before the process
		{"too late", []units.Time{16}, 10, 15, false},
		{"without a timeout", []units.Time{1_000_000}, units.Never, 1_000_000, true},
		{"with one that is past the end of time", []units.Time{1_000_000}, units.Never - 3, 1_000_000, true},
		{"no patience", []units.Time{6}, 0, 5, false},
		{"less than none", []units.Time{5}, -7, 5, false}, // the handler ran before the wait began
	} {
		t.Run(c.name, func(t *testing.T) {
			var e Engine
			var cond Cond
			for _, at := range c.signals {
				e.NewTimer(handlerFunc(func(units.Time) { cond.Signal() })).Arm(at)
			}
			at, got := units.Never, false
			e.Go("p", func(p *Process) {
				p.Sleep(5)
				got = cond.Wait(p, c.timeout)
				at = p.Now()
			})
			runAll(&e)
			if got != c.want || at != c.at {
				t.Errorf("signalled %v at %v, want %v at %v", got, at, c.want, c.at)
			}
		})
	}
}

// TestCondInOrder: processes resume in the order in which they began to wait, one
// for each signal.
func TestCondInOrder(t *testing.T) {
	for name, signal := range map[string]func(c *Cond){
		"Broadcast": (*Cond).Broadcast,
		"Signal": func(c *Cond) {
			for range 4 { // one is lost
				c.Signal()
			}
		},
	} {
		var e Engine
		var cond Cond
		var log []string
		for i, wait := range []units.Time{3, 1, 2} {
			e.Go("p", func(p *Process) {
				p.Sleep(wait)
				cond.Wait(p, 10-wait) // all at once: the signal changes the order
				log = append(log, fmt.Sprint(i, " ", p.Now()))
				cond.Wait(p, units.Never)
				t.Errorf("%s: %d got more than one signal", name, i)
			})
		}
		e.NewTimer(handlerFunc(func(units.Time) { signal(&cond) })).Arm(10)
		runAll(&e)
		if want := []string{"1 10ps", "2 10ps", "0 10ps"}; !slices.Equal(log, want) {
			t.Errorf("%s: %q, want %q", name, log, want)
		}
		e.StopProcesses()
	}
}

// TestStop: a stopped process runs its deferred functions at once, and cannot sleep
// or wait in them.
func TestStop(t *testing.T) {
	var e Engine
	var cond Cond
	var log []string
	start := func(name string, f func(p *Process)) *Process {
		return e.Go(name, func(p *Process) {
			defer func() { log = append(log, fmt.Sprint(p.Now(), " ", name)) }()
			f(p)
			t.Errorf("%s goes on", name)
		})
	}
	for _, p := range []*Process{
		start("sleeps", func(p *Process) { p.Sleep(units.Second) }),
		start("waits", func(p *Process) {
			defer cond.Wait(p, units.Never)
			defer p.Sleep(3)
			cond.Wait(p, units.Never)
		}),
		start("sleeps for ever", func(p *Process) { p.Sleep(units.Never) }),
		start("stops itself", func(p *Process) {
			p.Stop()
			log = append(log, "still runs")
			p.Sleep(0)
		}),
		start("recovers", func(p *Process) {
			func() {
				defer func() { _ = recover() }() // as it should not
				p.Sleep(1)
			}()
			cond.Wait(p, 1)
		}),
	} {
		e.Run(10, 1)
		e.AdvanceTo(10)
		p.Stop()
		if !p.Done() || p.Err() != ErrStopped {
			t.Errorf("%s: done %v, %v", p.Name(), p.Done(), p.Err())
		}
		p.Stop() // does nothing
	}
	never := e.Go("never begins", func(*Process) { t.Error("it begins") })
	never.Stop()
	if !never.Done() || never.Err() != ErrStopped {
		t.Errorf("stopped before it began: done %v, %v", never.Done(), never.Err())
	}
	returns := e.Go("returns", func(p *Process) { p.Stop() })
	runAll(&e)
	if !returns.Done() || returns.Err() != ErrStopped {
		t.Errorf("stopped and returned: done %v, %v", returns.Done(), returns.Err())
	}
	returns.Stop()
	want := []string{"10ps sleeps", "10ps waits", "10ps sleeps for ever", "still runs", "10ps stops itself", "10ps recovers"}
	if !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
	if e.NextDue() != units.Never || len(cond.waiting) > 0 || e.processes.live.Len() > 0 {
		t.Errorf("due %v, %d wait, %d live", e.NextDue(), len(cond.waiting), e.processes.live.Len())
	}
}

// TestStopProcesses: all processes end, in the order of their start, including those
// that their deferred functions start and the caller; no goroutine is left.
func TestStopProcesses(t *testing.T) {
	before := runtime.NumGoroutine()
	var e Engine
	e.StopProcesses() // there are none
	var log []string
	start := func(name string, f func(p *Process)) {
		e.Go(name, func(p *Process) {
			defer func() { log = append(log, name) }()
			f(p)
		})
	}
	start("a", func(p *Process) {
		defer start("created in the end", func(p *Process) { t.Error("it begins") })
		p.Sleep(units.Never)
	})
	start("b", func(p *Process) { p.Sleep(5) })
	start("c", func(p *Process) {
		p.Sleep(10)
		e.StopProcesses()
		log = append(log, "c again")
		p.Sleep(1)
		t.Error("c goes on")
	})
	start("d", func(p *Process) {
		defer e.StopProcesses() // in the middle of the other
		p.Sleep(100)
	})
	start("e", func(p *Process) { p.Sleep(100) })
	runAll(&e)
	if want := []string{"b", "a", "e", "d", "c again", "c"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
	if n := e.processes.live.Len(); n > 0 || e.Now() != 10 || e.NextDue() != units.Never {
		t.Errorf("%d processes live at %v, due %v", n, e.Now(), e.NextDue())
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	start("f", func(*Process) {})
	runAll(&e)
	if log[len(log)-1] != "f" {
		t.Error("none can be started any more")
	}
}

// panicOf returns the panic value of f.
func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func fail(err error) { panic(err) }

// TestProcessPanics: a panic propagates to where the process got its turn, with its
// name and stack, and the others continue afterwards.
func TestProcessPanics(t *testing.T) {
	var e Engine
	var log []string
	note := func(name string) { log = append(log, fmt.Sprint(e.Now(), " ", name)) }
	p := e.Go("rank 3", func(p *Process) {
		defer note("deferred")
		p.Sleep(5)
		fail(io.ErrUnexpectedEOF)
	})
	last := e.NewTimer(handlerFunc(func(units.Time) { note("last") }))
	e.NewTimer(handlerFunc(func(units.Time) { note("handler") })).Arm(6)
	failure, ok := panicOf(func() { runAll(&e) }).(*PanicError)
	if !ok || failure.Process != "rank 3" || !errors.Is(failure, io.ErrUnexpectedEOF) || p.Err() != failure || !p.Done() {
		t.Fatalf("panicked with %v, the process ended with %v", failure, p.Err())
	}
	for _, part := range []string{`process "rank 3" panicked: unexpected EOF`, "sim.fail("} {
		if !strings.Contains(failure.Error(), part) {
			t.Errorf("there is no %q in:\n%v", part, failure)
		}
	}
	e.Run(5, 10)
	last.Arm(8)
	runAll(&e)
	if want := []string{"5ps deferred", "6ps handler", "8ps last"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}

	// A panic while it is being stopped, with a value that is not an error.
	p = e.Go("late", func(p *Process) {
		defer func() { panic("no") }()
		p.Sleep(5)
	})
	other := e.Go("other", func(p *Process) { p.Sleep(5) })
	e.Run(8, 10)
	failure, ok = panicOf(e.StopProcesses).(*PanicError)
	if !ok || failure.Value != "no" || failure.Unwrap() != nil || p.Err() != failure {
		t.Errorf("panicked with %v, the process ended with %v", failure, p.Err())
	}
	if other.Done() {
		t.Error("the other has ended")
	}
	e.StopProcesses()
	if !other.Done() || e.NextDue() != units.Never {
		t.Errorf("the other has ended: %v; due %v", other.Done(), e.NextDue())
	}
}

// TestProcessExits: runtime.Goexit, which a test's FailNow calls, ends the process
// and the engine's goroutine.
func TestProcessExits(t *testing.T) {
	var e Engine
	p := e.Go("p", func(*Process) { runtime.Goexit() })
	went := make(chan bool)
	go func() {
		on := false
		defer func() { went <- on }()
		runAll(&e)
		on = true
	}()
	if on := <-went; on || !p.Done() || p.Err() != ErrStopped {
		t.Errorf("the engine went on: %v; done %v, %v", on, p.Done(), p.Err())
	}
}

// TestOnlyItself: only a process itself can put it to sleep.
func TestOnlyItself(t *testing.T) {
	var e Engine
	var cond Cond
	a := e.Go("a", func(p *Process) { p.Sleep(10) })
	e.Run(0, 10)
	for name, f := range map[string]func(){
		"Sleep": func() { a.Sleep(1) },
		"Until": func() { a.SleepUntil(1) },
		"Wait":  func() { cond.Wait(a, 1) },
	} {
		if v := panicOf(f); !strings.Contains(fmt.Sprint(v), `process "a" itself`) {
			t.Errorf("%s from outside: %v", name, v)
		}
		b := e.Go("b", func(*Process) { f() })
		v := panicOf(func() { e.Run(0, 10) })
		if failure, ok := v.(*PanicError); !ok || failure.Process != "b" || b.Err() != failure || !strings.Contains(failure.Error(), `process "a" itself`) {
			t.Errorf("%s from another process: %v", name, v)
		}
	}
	runAll(&e)
	if !a.Done() || a.Err() != nil || e.Now() != 10 {
		t.Errorf("done %v at %v: %v", a.Done(), e.Now(), a.Err())
	}
}

// TestShortProcessesAreFree: however many processes there were, neither the engine
// nor the program has grown.
func TestShortProcessesAreFree(t *testing.T) {
	before := runtime.NumGoroutine()
	var e Engine
	var cond Cond
	const waves, width = 20, 500
	ended := 0
	e.Go("parent", func(p *Process) {
		for range waves {
			for i := range width {
				e.Go("child", func(p *Process) {
					p.Sleep(units.Time(i % 7))
					if !cond.Wait(p, 100) {
						t.Error("no signal")
					}
					ended++
				})
			}
			p.Sleep(10)
			cond.Broadcast()
			p.Sleep(1)
		}
	})
	runAll(&e)
	if ended != waves*width {
		t.Errorf("%d ended", ended)
	}
	if len(e.sources) != 1 || e.queue.n > 8 || len(e.processes.queue) > 0 || e.processes.live.Len() > 0 {
		t.Errorf("%d timers, %d entries, %d turns, %d processes", len(e.sources), e.queue.n, len(e.processes.queue), e.processes.live.Len())
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// locked calls f on a goroutine that has locked its thread.
func locked(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	}()
	<-done
}

// TestTurnsDoNotAllocate: turns do not allocate, on a locked thread or on another.
func TestTurnsDoNotAllocate(t *testing.T) {
	for name, on := range map[string]func(func()){"locked": locked, "unlocked": func(f func()) { f() }} {
		var e Engine
		var cond Cond
		for range 3 {
			e.Go("waits", func(p *Process) {
				for {
					cond.Wait(p, 10)
				}
			})
		}
		e.Go("signals", func(p *Process) {
			for {
				p.Sleep(7)
				cond.Signal()
				p.Sleep(1)
				cond.Broadcast()
			}
		})
		on(func() {
			e.Run(1000, math.MaxInt)
			end := e.Now()
			if n := testing.AllocsPerRun(20, func() { end += 1000; e.Run(end, math.MaxInt) }); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
			e.StopProcesses()
		})
	}
}

// TestLockedThread: a process that was started before the engine's goroutine
// locked its thread runs on that thread, and so does one that another starts.
func TestLockedThread(t *testing.T) {
	var e Engine
	var cond Cond
	sum := 0
	e.Go("a", func(p *Process) {
		for range 100 {
			e.Go("b", func(p *Process) {
				cond.Wait(p, 50)
				sum++
			})
			p.Sleep(1)
		}
		cond.Broadcast()
		p.Sleep(units.Never)
	})
	locked(func() {
		runAll(&e)
		runtime.GC() // with processes that are parked
		e.StopProcesses()
	})
	if sum != 100 || e.Now() != 100 || e.processes.live.Len() > 0 {
		t.Errorf("%d ended by %v", sum, e.Now())
	}
}

// BenchmarkProcess measures the cost of a turn: the event, and the switch to the
// process and back.
func BenchmarkProcess(b *testing.B) {
	for _, c := range []struct {
		name string
		on   func(func())
	}{{"unlocked", func(f func()) { f() }}, {"locked", locked}} {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/processes=%d", c.name, n), func(b *testing.B) {
				var e Engine
				for i := range n {
					e.Go("p", func(p *Process) {
						for {
							p.Sleep(units.Time(1000 + i%977))
						}
					})
				}
				c.on(func() {
					e.Run(units.Never-1, 2*n)
					b.ReportAllocs()
					b.ResetTimer()
					e.Run(units.Never-1, b.N)
					b.StopTimer()
					e.StopProcesses()
				})
			})
		}
	}
}
