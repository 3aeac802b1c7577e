// Package wall drives an engine by the wall clock: one locked OS thread that
// sleeps in epoll until a device has something or an event is due. What it
// computes with is emulated time; how late the processor was is measured and
// never becomes part of the emulation.
package wall

import (
	"time"

	"github.com/weftlab/weft/emu/units"
)

// Clock gives the emulated time of a run in the wall clock: the time since
// its start.
type Clock struct{ start time.Time }

// NewClock starts a clock.
func NewClock() Clock { return Clock{time.Now()} }

// Now is the emulated time. Go reads the monotonic clock through the vDSO.
func (c Clock) Now() units.Time { return units.FromDuration(time.Since(c.start)) }

// stop makes the clock stand still for a time that has passed.
func (c *Clock) stop(t units.Time) { c.start = c.start.Add(t.Duration()) }

// Start is the wall-clock instant of emulated time zero.
func (c Clock) Start() time.Time { return c.start }
