// Package wall drives engines by the wall clock: locked OS threads sleep in
// epoll, or in an io_uring, until a device is ready or an event is due. They
// compute with emulated time; how late the processor was is measured and never
// becomes part of the emulation.
//
// # The thread
//
// Driver.Run locks one OS thread for each engine: timer slack of 1 ns, epoll_pwait2,
// SCHED_FIFO where it is allowed and while the thread leaves time to others (priority.go).
// A turn runs everything due, then work submitted by Do, then reads devices, whose packets
// enter at the instant of the turn, and sleeps until the next event. Only this thread
// touches the fabric. Other goroutines pass closures to Do, which an eventfd announces.
// Slow work, such as netlink, files and the compilation of filters, happens elsewhere.
//
// Devices that want it are read and written through one io_uring per engine (ring.go). The
// ring also watches the epoll that watches everything else.
//
// A sleep is a system call that Go's scheduler knows about; otherwise a garbage collection
// would wait for its end. Reads and writes of devices are raw. helpers.go keeps the other
// threads of the process ahead of the hosts' programs, because Go preempts the engine's
// goroutine and another thread has to hand it back. presence.go distinguishes a stopped
// process from overload.
//
// # Groups
//
// The engines of a fabric with several shards form a Group. Each may run ahead of the
// others by the shortest delay between them. A sleeping member does nothing before its
// next event, before mail or before the present, so the others may run on while it sleeps.
//
// # Dilation
//
// The driver and everything below it know only emulated time, except for what concerns the
// machine: spinning, the bound on how far the clock falls behind, scheduling, sleeps.
// Outside the fabric only code that deals with real kernels knows the dilation: the
// shapers, routes and neighbours of netns-lab (netns-lab/dilation.go), the bounds at which emu/lab
// holds hosts (emu/lab/holds.go), and code that reports CPU time. Clock.ShareFile puts the clock into
// a file for programs that run with netns-lab/slowclock.
package wall

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// MaxDilation is the largest dilation. It leaves 100 kb/s of a link with 100 Gb/s.
const MaxDilation = 1_000_000

// Clock maps real time to the emulated time of a run: the real time since its
// start divided by the dilation, minus the time for which the clock stood still.
// Nothing below the driver knows about the dilation.
type Clock struct {
	dilation int64
	start    time.Time
	// monotonic and realtime are the readings of the kernel's clocks at the
	// start, in nanoseconds, for programs that follow this clock.
	monotonic, realtime int64

	stood  atomic.Int64 // units.Time
	shared *sharedClock // nil until ShareFile
}

// NewClock starts a clock. With a dilation of 100, 100 s of real time are 1 s of
// emulated time; 1 is real time. The dilation must be positive.
func NewClock(dilation int) *Clock {
	if dilation < 1 {
		panic("wall: dilation below 1")
	}
	c := &Clock{dilation: int64(dilation), start: time.Now()}
	c.monotonic, c.realtime = readClock(unix.CLOCK_MONOTONIC), readClock(unix.CLOCK_REALTIME)
	return c
}

// readClock reads a kernel clock. It cannot fail for clocks that exist.
func readClock(clock int32) int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(clock, &t)
	return t.Nano()
}

// Now returns the emulated time. Go reads the monotonic clock through the vDSO.
func (c *Clock) Now() units.Time { return c.ToEmulated(time.Since(c.start)) - c.StoodStill() }

// realElapsed returns the real time since the start.
func (c *Clock) realElapsed() units.Time { return units.FromDuration(time.Since(c.start)) }

// Dilation returns how many seconds of real time one second of emulated time
// takes.
func (c *Clock) Dilation() int { return int(c.dilation) }

// ToEmulated converts a span of real time to emulated time.
func (c *Clock) ToEmulated(real time.Duration) units.Time {
	return divideByDilation(int64(real), c.dilation)
}

// divideByDilation divides nanoseconds by a dilation. It converts quotient and remainder
// separately, as nanoseconds in picoseconds would overflow after 106 days.
func divideByDilation(ns, dilation int64) units.Time {
	return units.Time(ns/dilation)*units.Nanosecond + units.Time(ns%dilation)*units.Nanosecond/units.Time(dilation)
}

// ToReal returns the real time that a span of emulated time takes, rounded up, so
// that a sleep of that length is never too short. It is capped at the longest
// Duration.
func (c *Clock) ToReal(t units.Time) time.Duration {
	const rounding = int64(units.Nanosecond) - 1
	if t > units.Time((math.MaxInt64-rounding)/c.dilation) {
		whole := int64(t / units.Nanosecond)
		if whole >= math.MaxInt64/c.dilation {
			return math.MaxInt64
		}
		return time.Duration(whole*c.dilation + int64(t%units.Nanosecond)*c.dilation/int64(units.Nanosecond))
	}
	return time.Duration((int64(t)*c.dilation + rounding) / int64(units.Nanosecond))
}

// StoodStill returns how long the clock has stood still, as the emulated time that
// would have passed.
func (c *Clock) StoodStill() units.Time { return units.Time(c.stood.Load()) }

// standStill makes the clock stand still for a time that has already passed.
func (c *Clock) standStill(t units.Time) {
	stood := c.stood.Add(int64(t))
	if c.shared != nil {
		c.shared.stood.Store(stood)
	}
}

// Start returns the wall-clock instant of emulated time zero, as computed now. If
// undilated, this instant plus the emulated time is the present, even after the
// clock has stood still.
func (c *Clock) Start() time.Time {
	if c.dilation > 1 {
		return c.start
	}
	return c.start.Add(c.StoodStill().Duration())
}
