package series

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// Flow identifies, in a row, a queue pair, a flow that an edge service distinguishes, or a
// modelled TCP flow.
type Flow struct {
	NIC string // or the interface: "h1:eth0"
	QPN uint32 // of a queue pair
	// Transfer is the modelled transfer that a queue pair carries out, "" if there is
	// none, or the traffic that a TCP flow belongs to. A flow of an edge service has none.
	Transfer string
	// Name is the name of a flow without a queue pair; "" for a queue pair. It has no
	// comma.
	Name string
}

// ofEdge reports whether it is a flow of an edge service.
func (f *Flow) ofEdge() bool { return f.Name != "" && f.Transfer == "" }

// FlowReading is what is known about a flow at a moment.
type FlowReading struct {
	Rate     units.Rate  // at which it may send, on the wire; 0 means no limit
	Window   units.Bytes // most that may be in flight; 0 means no limit
	InFlight units.Bytes // payload of SENDs, WRITEs and TCP that is sent and not acknowledged
	RTT      units.Time  // last measurement, for TCP smoothed; 0 before the first
	Acked    uint64      // payload acknowledged over the interval, in bytes
	Received uint64      // payload received and placed over the interval, in bytes; not for TCP, where the row is the sender's
	Resent   uint64      // packets retransmitted over the interval
	// For a flow of an edge service, which has none of the others except Rate:
	Waiting units.Bytes // frames waiting in the service
	Sent    uint64      // bytes of frames that the port took over the interval
	Dropped uint64      // packets that did not fit, over the interval
	// Gauges are the values of the flow's rate control, in the order of
	// FlowOptions.Gauges; gauge.None stands for a gauge that it does not have.
	Gauges []float64
}

// FlowSample is a flow at a moment, and what it did since the one before.
type FlowSample struct {
	At       units.Time // emulated, since the start of the run
	Interval units.Time // since the previous sample; positive
	Order    int32      // position of its NIC among the rows of an instant
	Flow
	FlowReading
}

// FlowOptions says what is recorded.
type FlowOptions struct {
	Gauges  []Gauge // gauges with columns, in their order
	Wait    bool    // as Options.Wait
	Ring    int     // samples between each producer and the consumer
	MaxRows uint64  // end after this many rows; 0 = MaxRows
}

// FlowRecorder is one recording of flows, from NewFlows to the end of Run.
type FlowRecorder struct {
	options FlowOptions
	taps    []*FlowTap
	closed  atomic.Bool
	started atomic.Bool
}

// NewFlows prepares a recording. Taps are added before Run.
func NewFlows(o FlowOptions) *FlowRecorder {
	if o.MaxRows == 0 {
		o.MaxRows = MaxRows
	}
	return &FlowRecorder{options: o}
}

// Close ends the recording: Run writes what has been put so far and returns.
func (r *FlowRecorder) Close() { r.closed.Store(true) }

// Run writes the recording to w as CSV, as Recorder.Run does.
func (r *FlowRecorder) Run(w io.Writer) (Summary, error) {
	if r.started.Swap(true) {
		return Summary{}, errors.New("series: Run was called twice")
	}
	out := newFlowWriter(w, r.options.Gauges)
	c := &run[FlowSample]{
		closed: &r.closed, maxRows: r.options.MaxRows, out: out.out, row: out.writeRow,
		at: func(s *FlowSample) units.Time { return s.At }, order: func(s *FlowSample) int32 { return s.Order },
	}
	for _, t := range r.taps {
		c.rings = append(c.rings, &t.ring)
	}
	return c.writeAll()
}

// FlowTap is the producer's end for the flows of some NICs, for a single
// producer.
type FlowTap struct {
	recorder *FlowRecorder
	ring[FlowSample]
}

// NewTap adds a producer.
func (r *FlowRecorder) NewTap() *FlowTap {
	t := &FlowTap{recorder: r}
	t.allocateSlots(max(r.options.Ring, 2))
	n := len(r.options.Gauges)
	values := make([]float64, n*len(t.slots))
	for i := range t.slots {
		t.slots[i].Gauges = values[i*n : (i+1)*n : (i+1)*n]
		t.slots[i].Order = -1 // have the kernel back the pages now
	}
	r.taps = append(r.taps, t)
	return t
}

// PutSamples takes the samples of an instant, later than the previous one, in the order of
// their rows; there may be none. It never blocks and never allocates; if the consumer
// is too far behind, the instant is left out, its samples are counted as overruns,
// and Put returns false: the next samples must then cover both intervals. With
// FlowOptions.Wait it sleeps until there is room instead. After the end of the
// recording it does nothing.
func (t *FlowTap) PutSamples(at units.Time, samples []FlowSample) bool {
	if t.IsClosed() {
		return true
	}
	if !t.recorder.options.Wait && !t.hasRoom(uint64(len(samples))) {
		t.overruns.Add(uint64(len(samples)))
		t.until.Store(int64(at))
		return false
	}
	head := t.head.Load()
	for i := range samples {
		for !t.hasRoom(1) {
			if t.IsClosed() {
				return true
			}
			time.Sleep(waitNap)
		}
		s := t.slotAt(head)
		gauges := s.Gauges
		copy(gauges, samples[i].Gauges)
		*s = samples[i]
		s.Gauges = gauges
		head++
		if t.recorder.options.Wait {
			t.head.Store(head)
		}
	}
	t.head.Store(head)
	t.until.Store(int64(at))
	return true
}

// IsClosed reports whether the recording has ended, or is about to.
func (t *FlowTap) IsClosed() bool { return t.recorder.closed.Load() }
