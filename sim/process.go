package sim

import (
	"container/list"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/weftlab/weft/sim/units"
)

// Process is a program that runs in emulated time: straight-line Go that sleeps and
// waits, and takes no emulated time in between. (SimPy's processes, for Go.) It
// suits code that drives a fabric from outside, as an application drives its NIC;
// code that handles every packet should be a Handler, whose event costs a fraction
// of a process's.
//
// # Turns
//
// A process has its own goroutine, but runs only while the engine's goroutine is
// suspended, so it may use everything that belongs to the engine without a lock. It
// must not call Engine.Run, nor block in anything but Sleep, SleepUntil and Cond.Wait:
// the engine would block with it.
//
// Starting, and resuming after a sleep or a wait, is an event of the engine. At one
// instant processes run after all Handlers, whenever those were registered, and
// among themselves in the order in which they were started, put to sleep or
// signalled; a Handler that a process arms for the same instant runs before the next
// process. So results do not depend on the engine's other work.
//
// # Threads
//
// Switches are coroutine switches (iter.Pull): the thread stays the same, even if it
// is locked by runtime.LockOSThread, as package wall's are. A turn, which is the event
// and the switch to the process and back, takes 0.2 µs, or 0.6 µs if thousands of
// processes must be fetched from memory, and no allocation. With channels it would be
// tens of microseconds on a locked thread, because each hand-over wakes another
// thread. In return, the Go runtime ends the program ("coro: OS thread locking must
// match") when a process that was started by a goroutine with a locked thread resumes,
// or is stopped, on another thread, or the other way round. So all processes must end,
// by themselves or by StopProcesses, before an engine moves from a locked goroutine to
// another one; and a process must not call LockOSThread.
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

	// When it resumes. place is its index in all.queue, or -1.
	at    units.Time
	turn  uint64
	place int

	cond      *Cond // on which it is waiting
	signalled bool
}

// state is the state of a process.
type state uint8

const (
	begins  state = iota // its first turn is still to come
	parked               // it sleeps or waits
	running              // it runs, or is stopping another one, which runs
	ended
)

// ErrStopped is the error of a process that was stopped by Stop, by StopProcesses,
// or by itself with runtime.Goexit (as testing.T.FailNow does, which ends the
// engine's goroutine as well).
var ErrStopped = errors.New("the process was stopped")

// PanicError is the engine's panic value when a process has panicked.
type PanicError struct {
	Process string // its name
	Value   any    // of the panic
	Stack   []byte // of the process
}

// Error returns the name, the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("process %q panicked: %v\n\n%s", e.Process, e.Value, e.Stack)
}

// Unwrap returns the value of the panic, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Go starts a process: f is called by an event at the engine's present time.
// The name is for messages; several processes may have the same.
//
// A panic of f propagates from Engine.Run, or whatever else resumed the process, as
// a *PanicError. The process has then ended, and the engine may continue.
func (e *Engine) Go(name string, f func(p *Process)) *Process {
	if e.processes == nil {
		e.processes = newProcesses(e)
	}
	s := e.processes
	p := &Process{name: name, all: s, f: f, place: -1}
	p.live = s.live.PushBack(p)
	s.scheduleTurn(p, e.now)
	return p
}

// StopProcesses stops all processes of the engine that have not ended, in the order
// of their start. Call it before dropping an engine with processes, on the goroutine
// that ran it, since the goroutine of a process that sleeps or waits is never
// collected.
func (e *Engine) StopProcesses() {
	if e.processes != nil {
		e.processes.stopAll()
	}
}

// Name returns the name given to Go.
func (p *Process) Name() string { return p.name }

// Now returns the engine's time.
func (p *Process) Now() units.Time { return p.all.engine.now }

// Done reports whether the process has ended.
func (p *Process) Done() bool { return p.state == ended }

// Err returns why the process has ended: ErrStopped, a *PanicError, or nil if f
// returned. It is nil while the process has not ended.
func (p *Process) Err() error { return p.err }

// Sleep sleeps for d. The process resumes after all other events due by then:
// Sleep(0) lets the rest of this instant happen. A negative d counts as 0;
// units.Never, or a sum that overflows an int64, sleeps for ever. Only the process
// itself may call it.
func (p *Process) Sleep(d units.Time) { p.SleepUntil(p.all.timeAfter(d)) }

// SleepUntil sleeps until t, like Sleep. A time in the past means now.
func (p *Process) SleepUntil(t units.Time) {
	p.mustRun()
	p.all.scheduleTurn(p, t)
	p.parkProcess()
}

// Stop ends the process. If it sleeps or waits, its deferred functions run before
// Stop returns, at the engine's present time; a process that has not begun never
// does. A running process, which is the caller or is stopping the caller, ends when
// it next sleeps or waits.
//
// A process that is being stopped panics where it sleeps or waits, again in its
// deferred functions. It must not swallow that panic: a process must panic again
// with any recovered value that it does not know.
//
// Stop is called on the engine's goroutine: by a Handler, by another process, or
// between two calls of Run.
func (p *Process) Stop() {
	was := p.state
	if was == ended {
		return
	}
	p.stopping = true
	if was == running {
		return
	}
	p.all.cancelTurn(p)
	p.leaveCond()
	if was == begins {
		p.endProcess(ErrStopped)
		return
	}
	p.resumeProcess()
}

// stopSign is the panic value of a process that is being stopped.
type stopSign struct{}

// mustRun panics unless the process itself is the caller.
func (p *Process) mustRun() {
	if p.all.running != p {
		panic(fmt.Sprintf("sim: only process %q itself may call its Sleep, Until or Cond.Wait, and while it runs", p.name))
	}
	if p.stopping {
		panic(stopSign{})
	}
}

// parkProcess returns the turn to the engine until the process resumes.
func (p *Process) parkProcess() {
	p.state = parked
	if !p.yield(struct{}{}) {
		panic(stopSign{})
	}
}

// resumeProcess gives the process its turn, to end itself if it is being stopped, and
// panics if the process has panicked.
func (p *Process) resumeProcess() {
	s := p.all
	above := s.running // not nil when one process stops another
	s.running = p
	defer func() { s.running = above }() // also when the process calls runtime.Goexit
	if p.state == begins {
		// Not earlier, because the coroutine belongs to the thread on which it is
		// made, if that is locked.
		p.next, p.stop = iter.Pull(p.iterate)
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

// iterate is the process as an iterator: it yields where the process parks.
func (p *Process) iterate(yield func(struct{}) bool) {
	p.yield = yield
	returned := false
	defer func() {
		// The panic continues in the engine's goroutine, see resume.
		v := recover()
		_, told := v.(stopSign)
		switch {
		case v != nil && !told:
			p.endProcess(&PanicError{p.name, v, debug.Stack()})
		case returned && !p.stopping:
			p.endProcess(nil)
		default:
			p.endProcess(ErrStopped)
		}
	}()
	p.f(p)
	returned = true
}

// endProcess marks the process as ended and releases what it holds.
func (p *Process) endProcess(err error) {
	p.state, p.err = ended, err
	p.all.live.Remove(p.live)
	p.f, p.live, p.next, p.stop, p.yield = nil, nil, nil, nil, nil
}
