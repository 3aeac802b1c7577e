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
	count       uint64
	least, most units.Time
	sum         float64 // ps; an int64 would overflow with a million spans of 10 s
	few         []units.Time
	many        *histogram // nil while few holds all
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
		s.many.add(int64(t / units.Nanosecond))
	case len(s.few) < fewSpans:
		s.few = append(s.few, t)
	default:
		s.many = &histogram{}
		for _, f := range append(s.few, t) {
			s.many.add(int64(f / units.Nanosecond))
		}
		s.few = nil
	}
}

// mean returns the mean, 0 if there are no spans.
func (s *spans) mean() units.Time {
	if s.count == 0 {
		return 0
	}
	return units.Time(math.Round(s.sum / float64(s.count)))
}

// at returns percentiles, 0 to 100: for each the smallest span that at least
// that percentage do not exceed; 0 if there are no spans.
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
		out[i] = min(max(units.Time(s.many.nth(uint64(rank)))*units.Nanosecond, s.least), s.most)
	}
	return out
}
