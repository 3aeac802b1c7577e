package wall

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// ThreadPoller is a device that can be written by a thread beside the engine's.
type ThreadPoller interface {
	Poller
	// WantsThread tells whether it should be.
	WantsThread() bool
	// WriteBy gives the device a thread, which calls the jobs that it is given one after
	// the other. nil takes it away; all that was given has then been done.
	WriteBy(thread func(job func()))
}

// startThreads gives devices that want one a thread, in turn. It returns what ends them.
func (d *Driver) startThreads() (stop func(), err error) {
	var devices []ThreadPoller
	for _, p := range d.devices {
		if t, ok := p.(ThreadPoller); ok && t.WantsThread() {
			devices = append(devices, t)
		}
	}
	n := min(d.options.Threads, len(devices))
	threads := make([]*thread, n)
	var running sync.WaitGroup
	stop = func() {
		for _, p := range devices {
			p.WriteBy(nil)
		}
		for _, t := range threads {
			if t != nil {
				t.close()
			}
		}
		running.Wait()
	}
	if n == 0 {
		return func() {}, nil
	}
	// A P for each, as the engine has.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
	for i := range threads {
		if threads[i], err = newThread(); err != nil {
			stop()
			return nil, err
		}
		running.Go(func() { threads[i].run(d.options.Realtime) })
	}
	for i, p := range devices {
		p.WriteBy(threads[i%n].do)
	}
	return stop, nil
}

// thread does jobs one after the other.
type thread struct {
	jobs   chan func()
	wake   int         // eventfd
	asleep atomic.Bool // or about to be
	closed atomic.Bool
}

// jobsAhead is how many jobs wait at most; with more the engine waits.
const jobsAhead = 256

func newThread() (*thread, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &thread{jobs: make(chan func(), jobsAhead), wake: wake}, nil
}

// do hands over a job.
func (t *thread) do(job func()) {
	t.jobs <- job
	t.rouse()
}

// close ends the thread when it has done all jobs.
func (t *thread) close() {
	close(t.jobs)
	t.closed.Store(true)
	t.rouse()
}

// rouse wakes the thread if it sleeps. A channel alone would wake it by way of another
// thread, as it is locked.
func (t *thread) rouse() {
	if t.asleep.Load() && t.asleep.Swap(false) {
		one := [8]byte{1}
		_, _ = unix.Write(t.wake, one[:]) // cannot be full: there is one for each sleep
	}
}

// run does jobs until close. It ends locked to its thread, which so ends too.
func (t *thread) run(realtime bool) {
	defer unix.Close(t.wake)
	if err := lockThread(); err != nil {
		realtime = false // it works all the same
	}
	var priority priority
	if realtime {
		_ = priority.raise() // the engine's thread says what is wrong
	}
	began := time.Now()
	for {
		slept := units.Time(0)
		select {
		case job, ok := <-t.jobs:
			if !ok {
				return
			}
			job()
		default:
			slept = t.sleep()
		}
		priority.adjust(units.FromDuration(time.Since(began)), slept)
	}
}

// sleep waits for a job and tells for how long.
func (t *thread) sleep() units.Time {
	t.asleep.Store(true)
	if (len(t.jobs) > 0 || t.closed.Load()) && t.asleep.Swap(false) {
		return 0 // that was just now
	}
	began := time.Now()
	var b [8]byte
	for {
		if _, err := unix.Read(t.wake, b[:]); !errors.Is(err, unix.EINTR) {
			return units.FromDuration(time.Since(began))
		}
	}
}
