package series

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// The consumer looks for samples after a nap that doubles from minNap to
// maxNap while there are none. The producer never wakes it: that would cost a
// system call on the engine's thread.
const (
	minNap = time.Millisecond
	maxNap = 4 * time.Millisecond
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
	c := &run{Recorder: r, out: newWriter(w, r.options.Sources)}
	err := c.samples()
	r.Close()
	if ferr := c.out.flush(); err == nil {
		err = ferr
	}
	for _, t := range r.taps {
		c.sum.Overruns += t.overruns.Load()
	}
	if err != nil {
		err = fmt.Errorf("series: %w", err)
	}
	return c.sum, err
}

// run is the state of the consumer.
type run struct {
	*Recorder
	out     *writer
	sum     Summary
	instant []Sample // that is being written
}

// samples moves samples from the rings to the file until the end.
func (r *run) samples() error {
	for nap := minNap; ; {
		// Looked at before the rings: once closed, empty rings stay empty.
		closed := r.closed.Load()
		n := 0
		for r.next(closed) {
			if left := r.options.MaxRows - r.sum.Rows; uint64(len(r.instant)) > left {
				r.sum.Full = r.instant[0].At
				return nil
			}
			for i := range r.instant {
				if err := r.out.row(&r.instant[i]); err != nil {
					return err
				}
			}
			r.sum.Rows += uint64(len(r.instant))
			n++
		}
		if closed {
			return nil
		}
		if err := r.out.flush(); err != nil {
			return err
		}
		if nap = min(2*nap, maxNap); n > 0 {
			nap = minNap
		}
		time.Sleep(nap)
	}
}

// next takes the samples of the earliest instant out of the rings. Until the
// producers have ended, each must have something: what it puts next might
// otherwise be earlier.
func (r *run) next(closed bool) bool {
	at := units.Never
	for _, t := range r.taps {
		tail := t.tail.Load()
		if tail == t.head.Load() {
			if !closed {
				return false
			}
			continue
		}
		at = min(at, t.ring[tail&uint64(len(t.ring)-1)].At)
	}
	if at == units.Never {
		return false
	}
	r.instant = r.instant[:0]
	for _, t := range r.taps {
		head, tail := t.head.Load(), t.tail.Load()
		for ; tail != head; tail++ {
			s := &t.ring[tail&uint64(len(t.ring)-1)]
			if s.At != at {
				break
			}
			r.instant = append(r.instant, *s)
		}
		t.tail.Store(tail)
	}
	if len(r.taps) > 1 {
		slices.SortFunc(r.instant, func(a, b Sample) int { return cmp.Compare(a.Source, b.Source) })
	}
	return true
}
