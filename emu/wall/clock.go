// Package wall drives engines by the wall clock: locked OS threads that sleep
// in epoll until a device has something or an event is due. What they compute
// with is emulated time; how late the processor was is measured and never
// becomes part of the emulation.
package wall

import (
	"sync/atomic"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// Clock gives the emulated time of a run in the wall clock: the time since
// its start, without that for which it stood still.
type Clock struct {
	start time.Time
	stood atomic.Int64 // units.Time
}

// NewClock starts a clock.
func NewClock() *Clock { return &Clock{start: time.Now()} }

// Now is the emulated time. Go reads the monotonic clock through the vDSO.
func (c *Clock) Now() units.Time { return c.wall() - c.Stood() }

// wall is the time since the start.
func (c *Clock) wall() units.Time { return units.FromDuration(time.Since(c.start)) }

// Stood is for how long the clock has stood still.
func (c *Clock) Stood() units.Time { return units.Time(c.stood.Load()) }

// stop makes the clock stand still for a time that has passed.
func (c *Clock) stop(t units.Time) { c.stood.Add(int64(t)) }

// Start is the wall-clock instant of emulated time zero, as it is reckoned
// now.
func (c *Clock) Start() time.Time { return c.start.Add(c.Stood().Duration()) }
