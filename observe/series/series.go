// Package series records queues and flows over time: samples of ports and their classes, and of
// queue pairs, at multiples of a span of emulated time, written as CSV and read back. The engine
// puts the values of its counters into a Tap, at the cost of a copy; everything else happens on
// the reader's side, in Run.
//
// A run in virtual time stops at every sample, so rows depend neither on workers nor on
// the order of events within an instant. In the wall clock each shard has a timer,
// registered last, that puts readings into a ring; a goroutine merges the rings by time. A
// full ring loses samples, never time: the next row covers the gap. Columns of gauges are
// known before the run. A flow that an edge service forgets and resumes counts as a new
// one.
package series

import (
	"sync/atomic"

	"github.com/weftlab/weft/sim/units"
)

// Bounds on how often queues are sampled.
const (
	MinVirtual = units.Microsecond       // in virtual time
	MinWall    = 100 * units.Microsecond // in the wall clock, where sampling takes the engine's time
	MaxEvery   = 1_000_000 * units.Second
)

// Bounds on what is recorded.
const (
	MaxRows = 100_000_000 // in one file: about 6 GB
	maxRate = 1_000_000   // rows per second of the wall clock, half of what a core can write
)

// rowBytes is the approximate size of a row in the file.
const rowBytes = 60

// Source is a sampled queue.
type Source struct {
	Port  string // "s1:3"
	Class string // "" means the port as a whole
}

// Reading is what is known about a queue at a moment. All but the queue, its
// maximum and the gauges are totals since the start of the run.
type Reading struct {
	Queue    units.Bytes // waiting frames, without the one being sent
	QueueMax units.Bytes // the longest it has been since the last reading; Unknown if this is not tracked
	TxBytes  uint64      // frames without FCS whose transmission has begun
	RxBytes  uint64      // frames without FCS received; only for ports as a whole
	Dropped  uint64      // packets
	Marked   uint64
	Trimmed  uint64
	Paused   units.Time // by the peer
	// Gauges are current values in the order of Options.Gauges; gauge.None stands for a
	// gauge that the queue does not have.
	Gauges []float64
}

// Unknown is a QueueMax that is not tracked.
const Unknown units.Bytes = -1

// Sample is a queue at a moment and what happened to it since the previous
// sample.
type Sample struct {
	At       units.Time // emulated, since the start of the run
	Interval units.Time // since the previous sample; positive
	Source   int32      // index into Options.Sources
	Reading             // Queue and Gauges at At; the others over the interval
}

// Options says what is recorded.
type Options struct {
	Sources []Source // of all taps, in the order of the rows of one instant
	Gauges  []Gauge  // gauges with columns, in their order
	Wait    bool     // producers wait for room instead of dropping, so that in virtual time results do not depend on the disk
	Ring    int      // samples between each producer and the consumer; it is raised to a power of two with room for two instants
	MaxRows uint64   // end after this many rows; 0 = MaxRows
}

// Recorder is one recording, from New to the end of Run.
type Recorder struct {
	options Options
	taps    []*Tap
	closed  atomic.Bool
	started atomic.Bool
}

// New prepares a recording. Taps are added before Run.
func New(o Options) *Recorder {
	if o.MaxRows == 0 {
		o.MaxRows = MaxRows
	}
	return &Recorder{options: o}
}

// Close ends the recording: Run writes what has been put so far and returns.
// Put does nothing from then on.
func (r *Recorder) Close() { r.closed.Store(true) }
