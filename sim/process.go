package sim

import (
	"container/list"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/weftlab/weft/sim/units"
)

// Process is a program that runs in emulated time: straight-line Go that
// sleeps and waits, and between two of these takes no emulated time at all.
// (SimPy's processes, for Go.) It suits what drives a fabric from outside, as
// an application drives its NIC; what handles every packet is a Handler, whose
// event costs a fraction of a process's.
//
// # Turns
//
// A process has a goroutine of its own, but runs only while the engine's stands
// still for it, so it may use all that belongs to the engine without a lock. It
// must not call Engine.Run, nor block in anything but Sleep, Until and
// Cond.Wait: the engine would block with it.
//
// Starting, and going on after a sleep or a wait, is an event of the engine. At
// one instant processes come after all Handlers, whenever those were
// registered, and among themselves in the order in which they were started, put
// to sleep or signalled; a Handler that a process arms for the same instant
// goes before the next process. So results do not depend on what else the engine
// has to do.
//
// # Threads
//
// The switch is a coroutine's (iter.Pull): the thread stays the same, also one
// that runtime.LockOSThread has locked, as package wall's are. A turn, to the
// process and back and the event that it is, takes 0.2 µs, or 0.6 µs where
// thousands of processes have to come out of memory, and no allocation. By
// channels it would be tens of microseconds on a locked thread, because each
// hand-over wakes another thread. In return the Go runtime ends the program ("coro: OS
// thread locking must match") when a process that was begun by a goroutine with
// a locked thread goes on, or is stopped, on another thread, or the other way
// round. So all processes end, by themselves or by StopProcesses, before an
// engine changes from a locked goroutine to another one; and a process does not
// call LockOSThread.
type Process struct {
	name string
	all  *processes
	f    func(*Process)

	state    state
	stopping bool // Stop was called
	err      error
	live     *list.Element // in all.live

	// The coroutine, from the first turn on.
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	// When it goes on: a place in all.queue, or -1.
	at    units.Time
	turn  uint64
	place int

	cond      *Cond // on which it waits
	signalled bool
}

// state is how far a process has come.
type state uint8

const (
	begins  state = iota // its first turn is still to come
	parked               // it sleeps or waits
	running              // it runs, or stops another one that runs
	ended
)

// ErrStopped is why a process ended that was stopped, by Stop, by
// StopProcesses, or by itself with runtime.Goexit (as testing.T.FailNow does,
// which ends the goroutine of the engine as well).
var ErrStopped = errors.New("the process was stopped")

// PanicError is what the engine panics with when a process has panicked.
type PanicError struct {
	Process string // its name
	Value   any    // of the panic
	Stack   []byte // of the process
}

// Error gives the name, the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("process %q panicked: %v\n\n%s", e.Process, e.Value, e.Stack)
}

// Unwrap gives the value of the panic, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Go starts a process: f is called by an event at the engine's present time.
// The name is for messages; several processes may have the same.
//
// A panic of f comes out of Engine.Run, or whatever else gave the process its
// turn, as a *PanicError. The process has ended then, and the engine may run
// on.
func (e *Engine) Go(name string, f func(p *Process)) *Process {
	if e.processes == nil {
		e.processes = newProcesses(e)
	}
	s := e.processes
	p := &Process{name: name, all: s, f: f, place: -1}
	p.live = s.live.PushBack(p)
	s.schedule(p, e.now)
	return p
}

// StopProcesses stops all processes of the engine that have not ended, in the
// order of their start. Call it before you drop an engine with processes, on the
// goroutine that ran it, since the goroutine of a process that sleeps or waits
// is never collected.
func (e *Engine) StopProcesses() {
	if e.processes != nil {
		e.processes.stopAll()
	}
}

// Name is what Go was given.
func (p *Process) Name() string { return p.name }

// Now is the engine's time.
func (p *Process) Now() units.Time { return p.all.engine.now }

// Done tells whether the process has ended.
func (p *Process) Done() bool { return p.state == ended }

// Err is why the process has ended: ErrStopped, a *PanicError, or nil when it
// came to its end. It is nil as long as it has not ended.
func (p *Process) Err() error { return p.err }

// Sleep lets d pass. The process goes on when all else has been done that is
// due by then: Sleep(0) lets the rest of this instant happen. A negative d
// counts as 0; units.Never, and what comes to more than an int64 holds, is for
// ever. Only the process itself may call it.
func (p *Process) Sleep(d units.Time) { p.Until(p.all.after(d)) }

// Until sleeps until t, in the way of Sleep. A time in the past means now.
func (p *Process) Until(t units.Time) {
	p.mustRun()
	p.all.schedule(p, t)
	p.park()
}

// Stop ends the process. If it sleeps or waits, its deferred functions run
// before Stop returns, at the engine's present time; one that has not begun
// never does. One that runs, which is the caller or has made the caller run,
// ends when it next sleeps or waits.
//
// A process that is being stopped panics where it sleeps or waits, again in its
// deferred functions. It must not keep that panic: what a process recovers and
// does not know, it has to panic with again.
//
// Stop is called by the goroutine of the engine: by a Handler, by another
// process, or between two calls of Run.
func (p *Process) Stop() {
	was := p.state
	if was == ended {
		return
	}
	p.stopping = true
	if was == running {
		return
	}
	p.all.unschedule(p)
	p.leaveCond()
	if was == begins {
		p.end(ErrStopped)
		return
	}
	p.resume()
}

// stopSign is what a process panics with that is being stopped.
type stopSign struct{}

// mustRun panics unless it is the process that calls.
func (p *Process) mustRun() {
	if p.all.running != p {
		panic(fmt.Sprintf("sim: only process %q itself may call its Sleep, Until or Cond.Wait, and while it runs", p.name))
	}
	if p.stopping {
		panic(stopSign{})
	}
}

// park gives the turn back to the engine until the process goes on.
func (p *Process) park() {
	p.state = parked
	if !p.yield(struct{}{}) {
		panic(stopSign{})
	}
}

// resume gives the process its turn, to end itself if it is being stopped, and
// panics if the process has.
func (p *Process) resume() {
	s := p.all
	above := s.running // not nil when one process stops another
	s.running = p
	defer func() { s.running = above }() // also when the process calls runtime.Goexit
	if p.state == begins {
		// Not before, because the coroutine belongs to the thread on which
		// it is made, if that is locked.
		p.next, p.stop = iter.Pull(p.run)
	}
	p.state = running
	if p.stopping {
		p.stop()
	} else {
		p.next()
	}
	if failure, ok := p.err.(*PanicError); ok {
		panic(failure)
	}
}

// run is the process as an iterator: it yields where the process parks.
func (p *Process) run(yield func(struct{}) bool) {
	p.yield = yield
	returned := false
	defer func() {
		// The panic goes on in the engine's goroutine, see resume.
		v := recover()
		_, told := v.(stopSign)
		switch {
		case v != nil && !told:
			p.end(&PanicError{p.name, v, debug.Stack()})
		case returned && !p.stopping:
			p.end(nil)
		default:
			p.end(ErrStopped)
		}
	}()
	p.f(p)
	returned = true
}

// end is the end of the process.
func (p *Process) end(err error) {
	p.state, p.err = ended, err
	p.all.live.Remove(p.live)
	p.f, p.live, p.next, p.stop, p.yield = nil, nil, nil, nil, nil
}
