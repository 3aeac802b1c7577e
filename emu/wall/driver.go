package wall

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/units"
)

// Poller is a device that the engine's thread reads.
type Poller interface {
	FD() int
	// Poll reads up to max packets, which enter the fabric at now, and
	// returns how many it read.
	Poll(now units.Time, max int) int
}

// Options are the choices of a run.
type Options struct {
	// Spin is how long the thread polls instead of sleeping: before an event
	// that is due within Spin, and after the last activity. 0 always sleeps.
	Spin units.Time
	// Realtime asks for SCHED_FIFO; Require makes its refusal an error.
	Realtime, Require bool
	// Limit is the lateness beyond which a delivery is counted apart.
	Limit units.Time
}

const (
	// maxLag is how far emulated time may fall behind the wall clock: when
	// events are more work than the thread can do, the clock stands still
	// instead, so that lateness stays bounded and devices are read.
	maxLag = 100 * units.Millisecond
	// eventBatch is how many events are fired before devices get a turn.
	eventBatch = 1 << 14
)

// readBatch is how many packets of one device are read before events and the
// other devices get a turn.
const readBatch = 32

// Driver runs one engine in the wall clock.
type Driver struct {
	engine   *sim.Engine
	options  Options
	clock    Clock
	lateness *Lateness
	devices  []Poller
	epoll    *epoll
	wake     int // eventfd: there is work
	realtime atomic.Bool
	idle     units.Time // for Load
	stood    units.Time // see Stood

	mu      sync.Mutex
	work    []func()
	pending atomic.Bool // work is not empty; spares the engine the lock
	closed  bool
}

// NewDriver makes a driver of an engine to which nothing has happened yet.
func NewDriver(e *sim.Engine, o Options) (*Driver, error) {
	ep, err := newEpoll()
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	d := &Driver{engine: e, options: o, lateness: NewLateness(o.Limit), epoll: ep}
	if d.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		ep.close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return d, ep.add(d.wake, -1)
}

// Attach lets the driver read a device. It is called before Run.
func (d *Driver) Attach(p Poller) error {
	d.devices = append(d.devices, p)
	if err := d.epoll.add(p.FD(), len(d.devices)-1); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// Delivered counts packets that have just been handed to a real host, which
// were due at now, in the run's lateness.
func (d *Driver) Delivered(now units.Time, packets int) {
	d.lateness.Record(d.clock.Now()-now, packets)
}

// Clock is the run's clock; it starts when Run does.
func (d *Driver) Clock() Clock { return d.clock }

// Realtime tells whether the thread got SCHED_FIFO.
func (d *Driver) Realtime() bool { return d.realtime.Load() }

// Stood is for how long the clock has stood still because the events were more
// than the thread could handle. It is called like Lateness.
func (d *Driver) Stood() units.Time { return d.stood }

// Lateness is the distribution so far. It is called on the engine's thread,
// through Do, or after Run.
func (d *Driver) Lateness() Summary { return d.lateness.Summary() }

// ErrStopped says that the engine no longer runs.
var ErrStopped = errors.New("the lab has stopped")

// Do runs f on the engine's thread between two events, with the engine's time
// brought up to the present, and waits for it. After the run it returns
// ErrStopped.
func (d *Driver) Do(f func()) error {
	done := make(chan struct{})
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrStopped
	}
	d.work = append(d.work, func() { f(); close(done) })
	d.pending.Store(true)
	d.mu.Unlock()
	one := [8]byte{1}
	if _, err := unix.Write(d.wake, one[:]); err != nil && !errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("waking the engine: %w", err)
	}
	<-done
	return nil
}

// Run drives the engine from the present, which becomes emulated time zero,
// until ctx ends or the emulated time limit comes. started is called on the
// engine's thread when the clock runs.
func (d *Driver) Run(ctx context.Context, limit units.Time, started func()) error {
	defer d.close()
	if err := lockThread(); err != nil {
		return err
	}
	var priority priority
	if d.options.Realtime {
		if err := priority.raise(); err != nil && d.options.Require {
			return err
		}
	}
	d.realtime.Store(priority.wanted)
	stop := context.AfterFunc(ctx, func() { _ = d.Do(func() {}) }) // ends a sleep
	defer stop()
	d.clock = NewClock()
	started()

	active := units.Time(0) // when something last came from outside
	var ready []unix.EpollEvent
	for ctx.Err() == nil {
		// Everything due is done before anything new is let in, so that an
		// engine never goes back in time; and all that is read in one turn
		// arrives at the turn's instant, which is when it was found waiting.
		at := d.clock.Now()
		if at >= limit {
			d.engine.Run(limit, math.MaxInt)
			d.engine.Advance(limit)
			return nil
		}
		n := d.engine.Run(at, eventBatch)
		worked := n > 0 || len(ready) > 0
		if n == eventBatch && d.engine.Next() <= at {
			at = d.engine.Now()
			if lag := d.clock.Now() - at; lag > maxLag {
				d.clock.stop(lag)
				d.stood += lag
			}
		}
		d.engine.Advance(at)
		if d.pending.Load() {
			d.runWork()
		}
		for _, ev := range ready {
			active = at
			if ev.Fd < 0 {
				var b [8]byte
				_, _ = unix.Read(d.wake, b[:])
				continue
			}
			d.devices[ev.Fd].Poll(at, readBatch)
		}
		before := d.clock.Now()
		ready = d.epoll.wait(d.sleep(active, limit))
		after := d.clock.Now()
		if worked {
			d.idle += after - before
		} else {
			d.idle += after - at
		}
		priority.adjust(after, after-before)
	}
	return nil
}

// sleep is how many nanoseconds the thread may wait for a device: until the
// next event, or not at all.
func (d *Driver) sleep(active, limit units.Time) int64 {
	// Work may have come between the look at it and the draining of the
	// eventfd that announced it: without this look its wake-up would be lost.
	if d.pending.Load() {
		return 0
	}
	at := d.clock.Now()
	next := min(d.engine.Next(), limit)
	if next <= at || at-active < d.options.Spin || next-at < d.options.Spin {
		return 0
	}
	if next == units.Never {
		return -1
	}
	// Waking Spin early leaves the rest to polling.
	return int64((next - at - d.options.Spin + units.Nanosecond - 1) / units.Nanosecond)
}

func (d *Driver) runWork() {
	d.mu.Lock()
	work := d.work
	d.work = nil
	d.pending.Store(false)
	d.mu.Unlock()
	for _, f := range work {
		f()
	}
}

// close lets no Do wait for ever.
func (d *Driver) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.runWork()
	d.epoll.close()
	unix.Close(d.wake)
}
