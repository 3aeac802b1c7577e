package series

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
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

// run is the state of the consumer of a recording's rings.
type run[T any] struct {
	rings   []*ring[T]
	closed  *atomic.Bool
	maxRows uint64
	out     *bufio.Writer
	row     func(*T) error
	at      func(*T) units.Time
	order   func(*T) int32 // of the rows of one instant; the rows of one producer come in order
	sum     Summary
	instant []T // being written; its slots become free at the next call of next
	tails   []uint64
}

// writeAll writes until the end of the recording.
func (r *run[T]) writeAll() (Summary, error) {
	err := r.writeSamples()
	r.closed.Store(true)
	if ferr := r.out.Flush(); err == nil {
		err = ferr
	}
	for _, t := range r.rings {
		r.sum.Overruns += t.overruns.Load()
	}
	if err != nil {
		err = fmt.Errorf("series: %w", err)
	}
	return r.sum, err
}

// writeSamples moves samples from the rings to the file until the end.
func (r *run[T]) writeSamples() error {
	for nap := minNap; ; {
		// Read before the rings: once closed, empty rings stay empty.
		closed := r.closed.Load()
		n := 0
		for r.nextInstant(closed) {
			if left := r.maxRows - r.sum.Rows; uint64(len(r.instant)) > left {
				r.sum.Full = r.at(&r.instant[0])
				return nil
			}
			for i := range r.instant {
				if err := r.row(&r.instant[i]); err != nil {
					return err
				}
			}
			r.sum.Rows += uint64(len(r.instant))
			n++
		}
		if closed {
			return nil
		}
		if err := r.out.Flush(); err != nil {
			return err
		}
		if nap = min(2*nap, maxNap); n > 0 {
			nap = minNap
		}
		time.Sleep(nap)
	}
}

// nextInstant takes the samples of the earliest instant out of the rings. Until the
// producers have ended, each ring must have a sample or be known to have
// nothing earlier.
func (r *run[T]) nextInstant(closed bool) bool {
	for i, tail := range r.tails {
		r.rings[i].tail.Store(tail)
	}
	r.tails, r.instant = r.tails[:0], r.instant[:0]
	at, known := units.Never, units.Never
	for _, t := range r.rings {
		until := units.Time(t.until.Load()) // read before the head, which it applies to
		if tail := t.tail.Load(); tail != t.head.Load() {
			at = min(at, r.at(t.slotAt(tail)))
		} else if !closed {
			known = min(known, until)
		}
	}
	if at == units.Never || at > known {
		return false
	}
	for _, t := range r.rings {
		head, tail := t.head.Load(), t.tail.Load()
		for ; tail != head; tail++ {
			s := t.slotAt(tail)
			if r.at(s) != at {
				break
			}
			r.instant = append(r.instant, *s)
		}
		r.tails = append(r.tails, tail)
	}
	if len(r.rings) > 1 {
		slices.SortStableFunc(r.instant, func(a, b T) int { return cmp.Compare(r.order(&a), r.order(&b)) })
	}
	return true
}
