package series

import (
	"sync/atomic"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// waitNap is how long a producer that waits for room sleeps between two looks.
const waitNap = 50 * time.Microsecond

// cacheLine keeps what one thread writes away from what the other reads.
const cacheLine = 64

// Tap is the producer's end for some of a recording's queues. It serves a
// single producer.
type Tap struct {
	recorder *Recorder
	sources  []int32
	last     []Reading
	lastAt   units.Time
	overruns atomic.Uint64 // samples; the producer counts

	// A ring of samples between one producer and one consumer. Head and tail
	// count samples since the begin; the place is the count modulo the length,
	// a power of two.
	ring []Sample
	_    [cacheLine]byte
	head atomic.Uint64 // the producer moves it
	_    [cacheLine]byte
	tail atomic.Uint64 // the consumer moves it
	_    [cacheLine]byte
}

// NewTap adds a producer of the sources with these indices, which rise.
func (r *Recorder) NewTap(sources []int32) *Tap {
	n := 1
	for n < max(r.options.Ring, 2*len(sources)) {
		n *= 2
	}
	t := &Tap{recorder: r, sources: sources, last: make([]Reading, len(sources)), ring: make([]Sample, n)}
	// Have the kernel back the pages now and not while the producer writes.
	for i := range t.ring {
		t.ring[i].Source = -1
	}
	for i := range t.last {
		t.last[i].QueueMax = Unknown
	}
	r.taps = append(r.taps, t)
	return t
}

// Put takes a reading of each of the tap's sources, in their order, at an
// instant after the one before. It never blocks and never allocates; when the
// consumer is too far behind, the instant is left out, its samples are counted
// as overruns, and the next samples stand for both intervals. With Options.Wait
// it sleeps until there is room instead, which Run makes. After the end of the
// recording it does nothing.
func (t *Tap) Put(at units.Time, now []Reading) {
	n := uint64(len(t.sources))
	if n == 0 || t.Closed() {
		return
	}
	head := t.head.Load()
	for head+n-t.tail.Load() > uint64(len(t.ring)) {
		if t.Closed() {
			return
		}
		if !t.recorder.options.Wait {
			t.overruns.Add(n)
			for i := range now {
				// What this interval would have said the next one has to.
				t.last[i].QueueMax = max(t.last[i].QueueMax, now[i].QueueMax)
			}
			return
		}
		time.Sleep(waitNap)
	}
	for i := range t.sources {
		r, l := &now[i], &t.last[i]
		s := &t.ring[(head+uint64(i))&uint64(len(t.ring)-1)]
		s.At, s.Interval, s.Source = at, at-t.lastAt, t.sources[i]
		s.Reading = Reading{
			Queue: r.Queue, QueueMax: max(r.QueueMax, l.QueueMax),
			TxBytes: r.TxBytes - l.TxBytes, RxBytes: r.RxBytes - l.RxBytes,
			Dropped: r.Dropped - l.Dropped, Marked: r.Marked - l.Marked, Trimmed: r.Trimmed - l.Trimmed,
			Paused: r.Paused - l.Paused,
		}
		*l = *r
		l.QueueMax = Unknown
	}
	t.lastAt = at
	t.head.Store(head + n)
}

// Last is the instant of the last samples that were taken, 0 when none were.
func (t *Tap) Last() units.Time { return t.lastAt }

// Closed reports that the recording has ended, or is about to.
func (t *Tap) Closed() bool { return t.recorder.closed.Load() }
