package wall

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
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
	// that is due within Spin, and after the last activity. 0 always sleeps. It
	// is of real time, because it is about the machine.
	Spin units.Time
	// Realtime asks for SCHED_FIFO; Require makes its refusal an error.
	Realtime, Require bool
	// IO is how devices are read and written.
	IO IO
	// Limit is the lateness beyond which a delivery is counted apart, in
	// emulated time.
	Limit units.Time
}

const (
	// maxLag is how far emulated time may fall behind the wall clock: when
	// events are more work than the thread can do, the clock stands still
	// instead, so that lateness stays bounded and devices are read. It is of real
	// time, as a host waits for it.
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
	clock    *Clock
	spin     units.Time // emulated, as maxLag is
	maxLag   units.Time
	group    *Group // nil when the engine is alone
	number   int    // in group
	exchange Exchange
	floor    units.Time // of packets from outside, see Run
	lateness *lateness
	devices  []Poller
	epoll    *epoll
	ring     *ring // nil without io_uring
	wake     int   // eventfd: there is work
	realtime atomic.Bool
	uring    atomic.Bool
	idle     units.Time // emulated, for Load
	presence presence

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
	d := &Driver{engine: e, options: o, lateness: newLateness(o.Limit), epoll: ep}
	if d.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		ep.close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return d, ep.add(d.wake, -1)
}

// Join makes the driver one of a group: its engine hands packets to others and
// gets some from them through x. It is called before Run, for all members.
func (d *Driver) Join(g *Group, number int, x Exchange) {
	d.group, d.number, d.exchange = g, number, x
	g.members[number].wake = func() {
		one := [8]byte{1}
		_, _ = unix.Write(d.wake, one[:]) // full: it wakes anyway
	}
}

// Attach lets the driver read a device. It is called before Run.
func (d *Driver) Attach(p Poller) error {
	d.devices = append(d.devices, p)
	if d.rings(p) {
		return nil // until the run begins
	}
	if err := d.epoll.add(p.FD(), len(d.devices)-1); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// Delivered counts packets that have just been handed to a real host, which
// were due at now, in the run's lateness.
func (d *Driver) Delivered(now units.Time, packets int) {
	d.lateness.record(d.clock.Now()-now, packets)
}

// Realtime tells whether the thread got SCHED_FIFO.
func (d *Driver) Realtime() bool { return d.realtime.Load() }

// Uring tells whether devices are read and written by an io_uring.
func (d *Driver) Uring() bool { return d.uring.Load() }

// Stood is for how long the clock has stood still because the events were more
// than the thread could handle, in emulated time. It is called like Lateness.
func (d *Driver) Stood() units.Time { return d.clock.Stood() }

// Absent is for how long the thread was stopped, with its process or the
// machine. It is called like Lateness.
func (d *Driver) Absent() units.Time { return d.presence.absent }

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

// Run drives the engine by a clock that starts at the present, which is
// emulated time zero, until ctx ends or the emulated time limit comes. The
// drivers of a group are given the same clock. started is called on the
// engine's thread. The engine's processes end with the run, on that thread, as
// they must.
func (d *Driver) Run(ctx context.Context, clock *Clock, limit units.Time, started func()) error {
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
	if err := d.startRing(); err != nil {
		return err
	}
	defer d.stopRing()
	stop := context.AfterFunc(ctx, func() { _ = d.Do(func() {}) }) // ends a sleep
	defer stop()
	d.clock = clock
	d.presence.begin(clock.real())
	defer d.presence.end()
	d.spin, d.maxLag = clock.Emulated(d.options.Spin.Duration()), clock.Emulated(maxLag.Duration())
	d.lateness.dilation = clock.dilation
	started()

	active := units.Time(0)   // when something last came from outside
	var ready []int           // devices, or -1 for work
	waiting, patience := 0, 0 // turns for the rest of the group
	if d.group != nil && runtime.NumCPU() > len(d.group.members) {
		patience = patientTurns
	}
	for ctx.Err() == nil {
		// Everything due is done before anything new is let in, so that an
		// engine never goes back in time; and all that is read in one turn
		// arrives at the turn's instant, which is when it was found waiting.
		began := d.clock.Now()
		at := d.allowed(began)
		if at >= limit {
			d.engine.Run(limit, math.MaxInt)
			d.engine.Advance(limit)
			d.leave()
			return nil
		}
		if at < d.floor {
			// A sleeper's packets come at the present when it wakes, and the
			// others rely on that: until they let this engine come so far,
			// its devices wait.
			ready = nil
		}
		n := d.engine.Run(at, eventBatch)
		worked := n > 0 || len(ready) > 0
		done := at
		if n == eventBatch && d.engine.Next() <= at {
			at = d.engine.Now()
			done = at - 1 // there may be more at this time
			if lag := d.clock.Now() - at; lag > d.maxLag {
				d.clock.stop(lag)
			}
		}
		d.engine.Advance(at)
		d.post(done)
		if d.pending.Load() {
			d.presence.look(d.clock.real())
			if d.ring != nil {
				d.ring.Submit() // the work may count what was written, or take long
			}
			d.runWork()
			d.post(done) // a NIC that was given work may have sent at once
		}
		for _, i := range ready {
			active = at
			if i < 0 {
				var b [8]byte
				_, _ = unix.Read(d.wake, b[:])
				continue
			}
			d.devices[i].Poll(at, readBatch)
		}
		if len(ready) > 0 {
			d.post(done)
		}
		found := d.exchangeIO()
		before := d.clock.Now()
		wait := int64(0)
		if !found {
			wait = d.sleep(active, limit)
		}
		switch {
		case d.group == nil:
			ready = d.wait(wait)
		case wait != 0 && d.group.sleep(d.number, min(d.engine.Next(), limit)):
			ready = d.wait(wait)
			d.group.awake(d.number)
			d.floor = d.clock.Now()
		case at < began && !worked && waiting > patience: // the others are behind
			rest := impatience * units.Time(min(waiting-patience, 20))
			nap(rest)
			wait = int64(rest / units.Nanosecond)
			ready = d.wait(0)
		default:
			ready = d.wait(0)
		}
		if waiting++; worked {
			waiting = 0
		}
		after := d.clock.Now()
		slept := units.FromDuration(clock.Real(after - before))
		if wait != 0 {
			d.presence.sleep(slept, units.Time(wait)*units.Nanosecond)
		}
		if worked {
			d.idle += after - before
		} else {
			d.idle += after - began
		}
		priority.adjust(units.FromDuration(clock.Real(after)), slept)
	}
	d.leave()
	return nil
}

// allowed is how far the engine may run at the present: as far as that, or as
// the others of its group let it. What they have posted is taken over.
func (d *Driver) allowed(present units.Time) units.Time {
	if d.group == nil {
		return present
	}
	// What was posted before the others said how far they are is there when
	// they have been asked.
	at := min(present, d.group.horizon(d.number))
	d.group.awake(d.number)
	d.exchange.Collect()
	// What is done now may wake a sleeper, and its answer comes after twice
	// the look-ahead.
	if next := d.engine.Next(); next < units.Never-2*d.group.lookahead {
		at = min(at, next+2*d.group.lookahead-1)
	}
	at = max(at, d.engine.Now())
	d.say(min(at, d.engine.Next()-1))
	return at
}

const (
	// patientTurns is how often a driver that must wait for others of its
	// group looks again at once, before it begins to sleep in between for
	// impatience, longer each time. With no core to spare it sleeps at once:
	// the core may be what the others wait for.
	patientTurns = 50
	impatience   = 10 * units.Microsecond
)

// post hands what was sent to the group, all of which was sent at done or
// before.
func (d *Driver) post(done units.Time) {
	if d.group == nil {
		return
	}
	d.exchange.Post(d.group.notify)
	d.say(done)
}

// say tells the group that all that was sent at done or before is posted.
func (d *Driver) say(done units.Time) {
	if m := &d.group.members[d.number].done; int64(done) > m.Load() {
		m.Store(int64(done))
	}
}

// leave lets the others of the group run on without this driver.
func (d *Driver) leave() {
	if d.group != nil {
		d.exchange.Post(d.group.notify)
		d.group.members[d.number].done.Store(int64(units.Never))
	}
}

// sleep is how many nanoseconds of real time the thread may wait for a device:
// until the next event, or not at all.
func (d *Driver) sleep(active, limit units.Time) int64 {
	// Work may have come between the look at it and the draining of the
	// eventfd that announced it: without this look its wake-up would be lost.
	if d.pending.Load() {
		return 0
	}
	at := d.clock.Now()
	next := min(d.engine.Next(), limit)
	if next <= at || at-active < d.spin || next-at < d.spin {
		return 0
	}
	// Waking Spin early leaves the rest to polling.
	return int64(min(d.clock.Real(next-at-d.spin), maxSleep.Duration()))
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

// close lets no Do wait for ever, and no process.
func (d *Driver) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.runWork()
	d.engine.StopProcesses()
	d.epoll.close()
	unix.Close(d.wake)
}
