// Package series is queues and flows over time: samples of ports and of the
// classes of ports, and samples of queue pairs, at multiples of a span of emulated
// time, written as CSV and read back. The engine puts what its counters say into a Tap, at the price of a
// copy; everything else happens on the side of the reader, in Run.
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
	MaxRows = 100_000_000 // of one file: about 6 GB
	maxRate = 1_000_000   // rows per second of the wall clock, which is half of what a core can write
)

// rowBytes is about what a row takes in the file.
const rowBytes = 60

// Source is a queue that is sampled.
type Source struct {
	Port  string // "s1:3"
	Class string // "" is the port as a whole
}

// Reading is what is known of a queue at a moment. All but the queue itself
// are totals since the start of the run.
type Reading struct {
	Queue    units.Bytes // frames that wait, without the one being sent
	QueueMax units.Bytes // the longest it has been since the last reading; Unknown where nobody keeps it
	TxBytes  uint64      // frames without FCS that have begun to leave
	RxBytes  uint64      // frames without FCS that have come in; of ports as a whole
	Dropped  uint64      // packets
	Marked   uint64
	Trimmed  uint64
	Paused   units.Time // by the peer
	// Gauges are by Options.Gauges; gauge.None is one that the queue does not have. They
	// are of the moment.
	Gauges []float64
}

// Unknown is a QueueMax that nobody keeps.
const Unknown units.Bytes = -1

// Sample is a queue at a moment and what happened at it since the sample
// before.
type Sample struct {
	At       units.Time // emulated, since the start of the run
	Interval units.Time // since the sample before; positive
	Source   int32      // index into Options.Sources
	Reading             // Queue and Gauges at At; the others over the interval
}

// Options say what is recorded.
type Options struct {
	Sources []Source // of all taps, in the order of the rows of one instant
	Gauges  []Gauge  // that have columns, in their order
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

// Close ends the recording: Run writes what was put before and returns. Put
// does nothing any more.
func (r *Recorder) Close() { r.closed.Store(true) }
