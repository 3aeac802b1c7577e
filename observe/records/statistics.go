package records

import (
	"fmt"
	"math"
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Statistics is a sink that keeps the completion time and the slowdown of each counted flow
// that is done, in 16 bytes, by size bin, for exact percentiles.
type Statistics struct {
	bins []Bin
}

// Bin holds the statistics of flows in a range of sizes.
type Bin struct {
	Over, To                 units.Bytes // of sizes over the one, up to and including the other
	Done, Failed, Unfinished uint64      // flows that counted
	Retransmitted            uint64      // packets, of all of them

	chunks []*[chunkLen]flowResult // all but the last are full
	sorted []float64
	by     Measure
}

// flowResult is what is kept of a flow.
type flowResult struct {
	fct      units.Time
	slowdown float64
}

// Chunks are as large as a few pages: a slice that grows would need the room of the old
// and the new one.
const chunkLen = 1 << 12

// NewStatistics makes a sink with a bin up to and including each of these sizes, rising,
// and one for larger sizes.
func NewStatistics(to ...units.Bytes) (*Statistics, error) {
	s := &Statistics{}
	over := units.Bytes(-1)
	for _, n := range append(slices.Clone(to), math.MaxInt64) {
		if n <= over {
			return nil, fmt.Errorf("bins of sizes up to %v: they must rise, without duplicates, from 0 on", to)
		}
		s.bins = append(s.bins, Bin{Over: over, To: n})
		over = n
	}
	return s, nil
}

// PutRecord implements Sink.
func (s *Statistics) PutRecord(r *Record) error {
	if !r.Counted {
		return nil
	}
	i, _ := slices.BinarySearchFunc(s.bins, r.Size, func(b Bin, n units.Bytes) int {
		if b.To < n {
			return -1
		}
		return 1
	})
	b := &s.bins[i]
	b.Retransmitted += r.Retransmitted
	switch r.State {
	case Failed:
		b.Failed++
		return nil
	case Unfinished:
		b.Unfinished++
		return nil
	}
	at := b.Done % chunkLen
	if at == 0 {
		b.chunks = append(b.chunks, new([chunkLen]flowResult))
	}
	b.chunks[len(b.chunks)-1][at] = flowResult{r.FCT(), r.Slowdown()}
	b.Done++
	b.sorted = nil
	return nil
}

// Close implements Sink; there is nothing to do.
func (s *Statistics) Close() error { return nil }

// Bins returns the bins, by rising size.
func (s *Statistics) Bins() []Bin { return s.bins }

// Measure selects the value for percentiles.
type Measure uint8

// The measures.
const (
	FCT      Measure = iota // completion time, seconds
	Slowdown                // over the ideal time; 0 where that is not known
)

// EachMeasure calls f with a measure of each flow that is done, in the order of their ends.
func (b *Bin) EachMeasure(m Measure, f func(float64)) {
	for i := range b.Done {
		k := &b.chunks[i/chunkLen][i%chunkLen]
		if m == Slowdown {
			f(k.slowdown)
		} else {
			f(k.fct.Seconds())
		}
	}
}

// MeanOf returns the mean of a measure over the flows that are done; NaN if there are none.
func (b *Bin) MeanOf(m Measure) float64 {
	sum := 0.0
	b.EachMeasure(m, func(x float64) { sum += x })
	return sum / float64(b.Done)
}

// PercentileOf returns the smallest value of a measure that p percent of the done flows do
// not exceed (the nearest rank), p from 0 to 100; NaN if no flow is done. It sorts, and
// keeps the sorted values until the next record or measure.
func (b *Bin) PercentileOf(m Measure, p float64) float64 {
	if b.Done == 0 {
		return math.NaN()
	}
	if b.sorted == nil || b.by != m {
		b.sorted, b.by = slices.Grow(b.sorted[:0], int(b.Done)), m
		b.EachMeasure(m, func(x float64) { b.sorted = append(b.sorted, x) })
		slices.Sort(b.sorted)
	}
	rank := math.Ceil(p / 100 * float64(b.Done))
	return b.sorted[int(min(max(rank, 1), float64(b.Done)))-1]
}
