package wall

import (
	"context"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Processes are coroutines, which Go's runtime permits on a locked thread only
// under certain conditions: so these tests need the driver's thread.

// A process that was started before the run, by a goroutine other than the driver's,
// sleeps in emulated time on the driver's thread, and is ended with the run if it has
// not ended before.
func TestProcess_RunsOnTheDriversThread(t *testing.T) {
	t.Parallel()
	var e sim.Engine
	var cond sim.Cond
	thread := 0
	var times []units.Time
	ends := e.Go("ends", func(p *sim.Process) {
		for range 5 {
			p.Sleep(2 * units.Millisecond)
			times = append(times, p.Now())
			if id := unix.Gettid(); id != thread {
				t.Errorf("the process is on thread %d, the engine on %d", id, thread)
			}
		}
		cond.Signal()
	})
	signalled := units.Never
	stopped := e.Go("is stopped", func(p *sim.Process) {
		defer func() {
			if id := unix.Gettid(); id != thread || p.Now() != 20*units.Millisecond {
				t.Errorf("stopped on thread %d at %v, the engine's is %d", id, p.Now(), thread)
			}
		}()
		cond.Wait(p, units.Never)
		signalled = p.Now()
		cond.Wait(p, units.Never)
	})
	ended := make(chan error)
	d := newDriver(t, &e, Options{})
	go func() {
		ended <- d.Run(context.Background(), NewClock(1), 20*units.Millisecond, func() { thread = unix.Gettid() })
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	const ms = units.Millisecond
	if want := []units.Time{2 * ms, 4 * ms, 6 * ms, 8 * ms, 10 * ms}; !slices.Equal(times, want) || signalled != 10*ms {
		t.Errorf("slept to %v, signalled at %v", times, signalled)
	}
	if !ends.Done() || ends.Err() != nil || !stopped.Done() || stopped.Err() != sim.ErrStopped {
		t.Errorf("done %v, %v; stopped %v, %v", ends.Done(), ends.Err(), stopped.Done(), stopped.Err())
	}
	e.StopProcesses() // from another goroutine: none is left
}

// Work from outside can start a process, signal it and stop it, between events.
func TestProcess_IsControlledByDo(t *testing.T) {
	t.Parallel()
	var e sim.Engine
	d, cancel, ended := running(t, &e)
	do := func(f func()) {
		if err := d.Do(f); err != nil {
			t.Fatal(err)
		}
	}
	var cond sim.Cond
	requests := 0
	answers := make(chan units.Time, 1) // a process must not block
	var server *sim.Process
	do(func() {
		server = e.Go("server", func(p *sim.Process) {
			defer close(answers)
			for {
				for requests == 0 {
					cond.Wait(p, units.Never)
				}
				requests--
				began := p.Now()
				p.Sleep(100 * units.Microsecond)
				answers <- p.Now() - began
			}
		})
	})
	for range 20 {
		do(func() {
			requests++
			cond.Signal()
		})
		if took := <-answers; took != 100*units.Microsecond {
			t.Errorf("a request took %v of emulated time", took)
		}
	}
	do(func() {
		server.Stop()
		if !server.Done() {
			t.Error("stopped, and not done")
		}
	})
	if _, open := <-answers; open {
		t.Error("the server's deferred functions did not run")
	}
	var late *sim.Process
	do(func() { late = e.Go("late", func(p *sim.Process) { p.Sleep(units.Never) }) })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if late.Err() != sim.ErrStopped {
		t.Errorf("the run has ended, a process %v", late.Err())
	}
}
