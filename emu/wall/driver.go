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
	// PollInput reads up to max packets, which enter the fabric at now, and
	// returns how many it read.
	PollInput(now units.Time, max int) int
}

// Options configure a run.
type Options struct {
	// Spin is how long the thread polls instead of sleeping: before an event that
	// is due within Spin, and after the last activity. 0 always sleeps. It is in
	// real time, because it depends on the machine.
	Spin units.Time
	// Realtime requests SCHED_FIFO; Require turns its refusal into an error.
	Realtime, Require bool
	// IO is how devices are read and written.
	IO IO
	// Limit is the lateness beyond which a delivery is counted separately, in
	// emulated time.
	Limit units.Time
}

const (
	// maxLag is how far emulated time may fall behind the wall clock: when there
	// are more events than the thread can handle, the clock stands still instead,
	// so that lateness stays bounded and devices are read. It is in real time,
	// because hosts wait for it.
	maxLag = 100 * units.Millisecond
	// eventBatch is how many events run before devices get a turn.
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
	spin     units.Time // emulated, like maxLag
	maxLag   units.Time
	group    *Group // nil if the engine is alone
	number   int    // in group
	exchange Exchange
	floor    units.Time // for packets from outside, see Run
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
	pending atomic.Bool // work is not empty; avoids taking the lock
	closed  bool
}

// NewDriver returns a driver for an engine that has not run yet.
func NewDriver(e *sim.Engine, o Options) (*Driver, error) {
	ep, err := newEpoll()
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	d := &Driver{engine: e, options: o, lateness: newLateness(o.Limit), epoll: ep}
	if d.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		ep.closeEpoll()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return d, ep.watchFD(d.wake, -1)
}

// JoinGroup adds the driver to a group: its engine exchanges packets with the others
// through x. It must be called before Run, for all members.
func (d *Driver) JoinGroup(g *Group, number int, x Exchange) {
	d.group, d.number, d.exchange = g, number, x
	g.members[number].wake = func() {
		one := [8]byte{1}
		_, _ = unix.Write(d.wake, one[:]) // if the eventfd is full, it wakes anyway
	}
}

// AttachDevice makes the driver read a device. It must be called before Run.
func (d *Driver) AttachDevice(p Poller) error {
	d.devices = append(d.devices, p)
	if d.wantsRing(p) {
		return nil // it starts with the run
	}
	if err := d.epoll.watchFD(p.FD(), len(d.devices)-1); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// RecordDelivery records the lateness of packets that have just been delivered to a
// real host and were due at now.
func (d *Driver) RecordDelivery(now units.Time, packets int) {
	d.lateness.recordDelivery(d.clock.Now()-now, packets)
}

// IsRealtime reports whether the thread got SCHED_FIFO.
func (d *Driver) IsRealtime() bool { return d.realtime.Load() }

// UsesUring reports whether devices are read and written by an io_uring.
func (d *Driver) UsesUring() bool { return d.uring.Load() }

// StoodStill returns how long the clock has stood still because there were more events
// than the thread could handle, in emulated time. The rules of Lateness for
// calling it apply.
func (d *Driver) StoodStill() units.Time { return d.clock.StoodStill() }

// AbsentTime returns how long the thread was stopped, with its process or the
// machine. The rules of Lateness for calling it apply.
func (d *Driver) AbsentTime() units.Time { return d.presence.absent }

// ErrStopped means that the engine no longer runs.
var ErrStopped = errors.New("the lab has stopped")

// Do runs f on the engine's thread between two events, with the engine's time
// advanced to the present, and waits for it. After the run it returns ErrStopped.
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

// Run drives the engine by a clock that starts now, at emulated time zero, until
// ctx ends or emulated time reaches limit. The drivers of a group share the same
// clock. started is called on the engine's thread. The engine's processes end
// with the run, and must end on that thread.
func (d *Driver) Run(ctx context.Context, clock *Clock, limit units.Time, started func()) error {
	defer d.closeDriver()
	if err := lockThread(); err != nil {
		return err
	}
	var priority priority
	if d.options.Realtime {
		if err := priority.raisePriority(); err != nil && d.options.Require {
			return err
		}
	}
	d.realtime.Store(priority.wanted)
	if err := d.startRing(); err != nil {
		return err
	}
	defer d.stopRing()
	stop := context.AfterFunc(ctx, func() { _ = d.Do(func() {}) }) // interrupts a sleep
	defer stop()
	d.clock = clock
	d.presence.beginPeriod(clock.realElapsed())
	defer d.presence.endPeriod()
	d.spin, d.maxLag = clock.ToEmulated(d.options.Spin.Duration()), clock.ToEmulated(maxLag.Duration())
	d.lateness.dilation = clock.dilation
	started()

	active := units.Time(0)     // time of the last input from outside
	var ready []int             // devices, or -1 for work
	waiting, maxWaiting := 0, 0 // turns spent waiting for the rest of the group
	if d.group != nil && runtime.NumCPU() > len(d.group.members) {
		maxWaiting = patientTurns
	}
	for ctx.Err() == nil {
		// Everything due is done before new input is accepted, so that an engine
		// never goes back in time; and all input read in one turn arrives at the
		// turn's instant, which is when it was found waiting.
		began := d.clock.Now()
		at := d.allowedTime(began)
		if at >= limit {
			d.engine.Run(limit, math.MaxInt)
			d.engine.AdvanceTo(limit)
			d.leaveGroup()
			return nil
		}
		if at < d.floor {
			// When a sleeper wakes, its packets arrive at the present, and the
			// others rely on that: its devices must wait until the others allow
			// this engine to advance that far.
			ready = nil
		}
		n := d.engine.Run(at, eventBatch)
		worked := n > 0 || len(ready) > 0
		done := at
		if n == eventBatch && d.engine.Next() <= at {
			at = d.engine.Now()
			done = at - 1 // there may be more events at this time
			if lag := d.clock.Now() - at; lag > d.maxLag {
				d.clock.standStill(lag)
			}
		}
		d.engine.AdvanceTo(at)
		d.passToGroup(done)
		if d.pending.Load() {
			d.presence.nextPeriod(d.clock.realElapsed())
			if d.ring != nil {
				d.ring.SubmitQueued() // the work may count what was written, or take long
			}
			d.runWork()
			d.passToGroup(done) // a NIC that got work may have sent at once
		}
		for _, i := range ready {
			active = at
			if i < 0 {
				var b [8]byte
				_, _ = unix.Read(d.wake, b[:])
				continue
			}
			d.devices[i].PollInput(at, readBatch)
		}
		if len(ready) > 0 {
			d.passToGroup(done)
		}
		found := d.exchangeIO()
		before := d.clock.Now()
		wait := int64(0)
		if !found {
			wait = d.sleepTime(active, limit)
		}
		switch {
		case d.group == nil:
			ready = d.waitReady(wait)
		case wait != 0 && d.group.announceSleep(d.number, min(d.engine.Next(), limit)):
			ready = d.waitReady(wait)
			d.group.announceAwake(d.number)
			d.floor = d.clock.Now()
		case at < began && !worked && waiting > maxWaiting: // the others are behind
			rest := impatience * units.Time(min(waiting-maxWaiting, 20))
			sleepFor(rest)
			wait = int64(rest / units.Nanosecond)
			ready = d.waitReady(0)
		default:
			ready = d.waitReady(0)
		}
		if waiting++; worked {
			waiting = 0
		}
		after := d.clock.Now()
		slept := units.FromDuration(clock.ToReal(after - before))
		if wait != 0 {
			d.presence.recordSleep(slept, units.Time(wait)*units.Nanosecond)
		}
		if worked {
			d.idle += after - before
		} else {
			d.idle += after - began
		}
		priority.adjustPriority(units.FromDuration(clock.ToReal(after)), slept)
	}
	d.leaveGroup()
	return nil
}

// allowedTime returns how far the engine may run: to the present, or as far as the
// others in its group allow. It also collects what they have posted.
func (d *Driver) allowedTime(present units.Time) units.Time {
	if d.group == nil {
		return present
	}
	// Whatever the others posted before they reported their progress is there
	// once their progress has been read.
	at := min(present, d.group.horizonOf(d.number))
	d.group.announceAwake(d.number)
	d.exchange.Collect()
	// An event that runs now may wake a sleeper, whose answer arrives after twice
	// the look-ahead.
	if next := d.engine.Next(); next < units.Never-2*d.group.lookahead {
		at = min(at, next+2*d.group.lookahead-1)
	}
	at = max(at, d.engine.Now())
	d.announceDone(min(at, d.engine.Next()-1))
	return at
}

const (
	// patientTurns is how often a driver that must wait for others of its group
	// checks again immediately, before it sleeps in between for impatience,
	// longer each time. With no core to spare it sleeps immediately: the others
	// may be waiting for its core.
	patientTurns = 50
	impatience   = 10 * units.Microsecond
)

// passToGroup passes to the group what was sent, all of it at done or before.
func (d *Driver) passToGroup(done units.Time) {
	if d.group == nil {
		return
	}
	d.exchange.Post(d.group.notifyMember)
	d.announceDone(done)
}

// announceDone tells the group that everything sent at done or before has been posted.
func (d *Driver) announceDone(done units.Time) {
	if m := &d.group.members[d.number].done; int64(done) > m.Load() {
		m.Store(int64(done))
	}
}

// leaveGroup lets the others in the group continue without this driver.
func (d *Driver) leaveGroup() {
	if d.group != nil {
		d.exchange.Post(d.group.notifyMember)
		d.group.members[d.number].done.Store(int64(units.Never))
	}
}

// sleepTime returns how many nanoseconds of real time the thread may wait for a
// device: until the next event, or not at all.
func (d *Driver) sleepTime(active, limit units.Time) int64 {
	// Work may have arrived after it was last checked and before the eventfd that
	// announced it was drained: without this check the wake-up would be lost.
	if d.pending.Load() {
		return 0
	}
	at := d.clock.Now()
	next := min(d.engine.Next(), limit)
	if next <= at || at-active < d.spin || next-at < d.spin {
		return 0
	}
	// Wake up Spin early, and poll for the rest.
	return int64(min(d.clock.ToReal(next-at-d.spin), maxSleep.Duration()))
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

// closeDriver makes sure that neither Do nor a process waits forever.
func (d *Driver) closeDriver() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.runWork()
	d.engine.StopProcesses()
	d.epoll.closeEpoll()
	unix.Close(d.wake)
}
