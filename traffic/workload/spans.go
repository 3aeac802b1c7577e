package workload

import (
	"math"
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// fewSpans is how many spans are kept individually. Labs with thousands of
// transfers have few messages in each.
const fewSpans = 128

// spans collects lengths of time: up to fewSpans of them exactly, more of them
// with percentiles within 1%. Least, most and mean are always exact.
type spans struct {
	count            uint64
	minSpan, maxSpan units.Time
	sum              float64 // ps; an int64 would overflow with a million spans of 10 s
	few              []units.Time
	many             *histogram // nil while few holds all
}

func (s *spans) addSpan(t units.Time) {
	if s.count == 0 || t < s.minSpan {
		s.minSpan = t
	}
	s.maxSpan = max(s.maxSpan, t)
	s.count++
	s.sum += float64(t)
	switch {
	case s.many != nil:
		s.many.addTime(int64(t / units.Nanosecond))
	case len(s.few) < fewSpans:
		s.few = append(s.few, t)
	default:
		s.many = &histogram{}
		for _, f := range append(s.few, t) {
			s.many.addTime(int64(f / units.Nanosecond))
		}
		s.few = nil
	}
}

// meanSpan returns the mean, 0 if there are no spans.
func (s *spans) meanSpan() units.Time {
	if s.count == 0 {
		return 0
	}
	return units.Time(math.Round(s.sum / float64(s.count)))
}

// percentiles returns percentiles, 0 to 100: for each the smallest span that at least
// that percentage do not exceed; 0 if there are no spans.
func (s *spans) percentiles(percents ...float64) []units.Time {
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
		out[i] = min(max(units.Time(s.many.timeOfRank(uint64(rank)))*units.Nanosecond, s.minSpan), s.maxSpan)
	}
	return out
}
