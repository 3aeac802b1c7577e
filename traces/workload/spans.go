package workload

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftlab/weft/sim/units"
)

// fewSpans is how many spans are kept one by one. Labs with thousands of
// transfers have few messages in each, and a histogram takes 34 KB.
const fewSpans = 128

// spans keeps lengths of time: up to fewSpans of them exactly, more of them
// with percentiles within 1%. Least, most and mean are exact always.
type spans struct {
	count       uint64
	least, most units.Time
	sum         float64 // ps; an int64 would overflow with a million spans of 10 s
	few         []units.Time
	many        *hdrhistogram.Histogram // ns, from 1 ns to 1000 s; nil while few has all
}

func (s *spans) add(t units.Time) {
	if s.count == 0 || t < s.least {
		s.least = t
	}
	s.most = max(s.most, t)
	s.count++
	s.sum += float64(t)
	switch {
	case s.many != nil:
		s.record(t)
	case len(s.few) < fewSpans:
		s.few = append(s.few, t)
	default:
		s.many = hdrhistogram.New(1, 1_000_000_000_000, 2)
		for _, f := range s.few {
			s.record(f)
		}
		s.record(t)
		s.few = nil
	}
}

func (s *spans) record(t units.Time) {
	_ = s.many.RecordValue(min(max(int64(t/units.Nanosecond), 1), s.many.HighestTrackableValue()))
}

// mean is 0 of nothing.
func (s *spans) mean() units.Time {
	if s.count == 0 {
		return 0
	}
	return units.Time(math.Round(s.sum / float64(s.count)))
}

// at gives percentiles, 0 to 100: the least span that at least so many percent
// do not exceed; 0 of nothing.
func (s *spans) at(percents ...float64) []units.Time {
	out := make([]units.Time, len(percents))
	if s.count == 0 {
		return out
	}
	sorted := slices.Sorted(slices.Values(s.few))
	for i, p := range percents {
		rank := max(math.Ceil(p/100*float64(s.count)-1e-9), 1)
		if s.many == nil {
			out[i] = sorted[int(rank)-1]
			continue
		}
		// The histogram would round the rank instead.
		v := s.many.ValueAtPercentile(100 * rank / float64(s.count))
		out[i] = min(max(units.Time(v)*units.Nanosecond, s.least), s.most)
	}
	return out
}
