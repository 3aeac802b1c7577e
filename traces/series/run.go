package series

import (
	"errors"
	"io"

	"github.com/weftlab/weft/sim/units"
)

// Summary says what a recording holds and what it lacks.
type Summary struct {
	Rows     uint64     `json:"rows"`               // written
	Overruns uint64     `json:"overruns,omitempty"` // samples that are missing because they could not be written fast enough
	Full     units.Time `json:"full,omitempty"`     // when the recording ended because it had as many rows as it may; 0 = it did not
}

// Run writes the recording to w as CSV until Close is called or
// Options.MaxRows is reached: then whatever was put before is in it, in order
// of time and of the sources, and every row is whole. Run may be called once.
//
// It fails when writing fails; the recording is then over.
func (r *Recorder) Run(w io.Writer) (Summary, error) {
	if r.started.Swap(true) {
		return Summary{}, errors.New("series: Run was called twice")
	}
	c := r.run(newWriter(w, r.options.Sources, r.options.Gauges))
	return c.all()
}

// run makes the consumer.
func (r *Recorder) run(w *writer) *run[Sample] {
	c := &run[Sample]{
		closed: &r.closed, maxRows: r.options.MaxRows, out: w.out, row: w.row,
		at: func(s *Sample) units.Time { return s.At }, order: func(s *Sample) int32 { return s.Source },
	}
	for _, t := range r.taps {
		c.rings = append(c.rings, &t.ring)
	}
	return c
}
