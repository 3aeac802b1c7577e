package series

import (
	"errors"
	"io"

	"github.com/weftlab/weft/sim/units"
)

// Summary says what a recording contains and what is missing.
type Summary struct {
	Rows     uint64     `json:"rows"`               // written
	Overruns uint64     `json:"overruns,omitempty"` // samples missing because they could not be written fast enough
	Full     units.Time `json:"full,omitempty"`     // when the recording ended because it reached its maximum number of rows; 0 = it did not
}

// Run writes the recording to w as CSV until Close is called or Options.MaxRows
// is reached: then everything put before is in it, in order of time and of the
// sources, and every row is complete. Run may be called once.
//
// It fails if writing fails; the recording is then over.
func (r *Recorder) Run(w io.Writer) (Summary, error) {
	if r.started.Swap(true) {
		return Summary{}, errors.New("series: Run was called twice")
	}
	c := r.newRun(newWriter(w, r.options.Sources, r.options.Gauges))
	return c.writeAll()
}

// newRun makes the consumer.
func (r *Recorder) newRun(w *writer) *run[Sample] {
	c := &run[Sample]{
		closed: &r.closed, maxRows: r.options.MaxRows, out: w.out, row: w.writeRow,
		at: func(s *Sample) units.Time { return s.At }, order: func(s *Sample) int32 { return s.Source },
	}
	for _, t := range r.taps {
		c.rings = append(c.rings, &t.ring)
	}
	return c
}
