package series

import (
	"time"

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// Tap is the producer's end for some of a recording's queues. It serves a
// single producer.
type Tap struct {
	recorder *Recorder
	sources  []int32
	last     []Reading
	lastAt   units.Time
	ring[Sample]
}

// NewTap adds a producer of the sources with these indices, which are in ascending
// order.
func (r *Recorder) NewTap(sources []int32) *Tap {
	t := &Tap{recorder: r, sources: sources, last: make([]Reading, len(sources))}
	t.allocateSlots(max(r.options.Ring, 2*len(sources)))
	n := len(r.options.Gauges)
	values := make([]float64, n*len(t.slots))
	// Have the kernel back the pages now and not while the producer writes.
	for i := range t.slots {
		t.slots[i].Source = -1
		t.slots[i].Gauges = values[i*n : (i+1)*n : (i+1)*n]
	}
	for i := range values {
		values[i] = gauge.None
	}
	for i := range t.last {
		t.last[i].QueueMax = Unknown
	}
	r.taps = append(r.taps, t)
	return t
}

// PutReadings takes a reading of each of the tap's sources, in their order, at an
// instant later than the previous one. It never blocks and never allocates; if
// the consumer is too far behind, the instant is left out, its samples are
// counted as overruns, and the next samples cover both intervals. With
// Options.Wait it sleeps until there is room instead, which Run makes. After
// the end of the recording it does nothing.
func (t *Tap) PutReadings(at units.Time, now []Reading) {
	n := uint64(len(t.sources))
	if n == 0 || t.IsClosed() {
		return
	}
	for !t.hasRoom(n) {
		if t.IsClosed() {
			return
		}
		if !t.recorder.options.Wait {
			t.overruns.Add(n)
			for i := range now {
				// The next interval must include the maximum of this one.
				t.last[i].QueueMax = max(t.last[i].QueueMax, now[i].QueueMax)
			}
			t.until.Store(int64(at))
			return
		}
		time.Sleep(waitNap)
	}
	head := t.head.Load()
	for i := range t.sources {
		r, l := &now[i], &t.last[i]
		s := t.slotAt(head + uint64(i))
		s.At, s.Interval, s.Source = at, at-t.lastAt, t.sources[i]
		gauges := s.Gauges
		copy(gauges, r.Gauges)
		s.Reading = Reading{
			Queue: r.Queue, QueueMax: max(r.QueueMax, l.QueueMax),
			TxBytes: r.TxBytes - l.TxBytes, RxBytes: r.RxBytes - l.RxBytes,
			Dropped: r.Dropped - l.Dropped, Marked: r.Marked - l.Marked, Trimmed: r.Trimmed - l.Trimmed,
			Paused: r.Paused - l.Paused, Gauges: gauges,
		}
		*l = *r
		l.QueueMax = Unknown
	}
	t.lastAt = at
	t.head.Store(head + n)
	t.until.Store(int64(at))
}

// LastSample returns the instant of the last samples taken, 0 if there are none.
func (t *Tap) LastSample() units.Time { return t.lastAt }

// IsClosed reports whether the recording has ended, or is about to.
func (t *Tap) IsClosed() bool { return t.recorder.closed.Load() }
