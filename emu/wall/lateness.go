package wall

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// lateness is the distribution of how much later than its emulated time each
// packet was delivered to a real host, in nanoseconds of real time up to 10 s with
// three significant digits.
type lateness struct {
	histogram *hdrhistogram.Histogram
	dilation  int64
	limit     units.Time // emulated
	beyond    uint64
}

// newLateness counts deliveries later than limit separately.
func newLateness(limit units.Time) *lateness {
	return &lateness{histogram: hdrhistogram.New(1, 10_000_000_000, 3), dilation: 1, limit: limit}
}

// recordDelivery adds the delivery of packets, late by a span of emulated time.
func (l *lateness) recordDelivery(late units.Time, packets int) {
	if late > l.limit {
		l.beyond += uint64(packets)
	}
	maxValue := l.histogram.HighestTrackableValue()
	ns := maxValue
	// A lateness that would overflow when multiplied is out of range, dilated or
	// not.
	if late < units.Time(maxValue/l.dilation)*units.Nanosecond {
		ns = max(int64(late)*l.dilation/int64(units.Nanosecond), 0)
	}
	// The only error is out of range, which min prevents.
	_ = l.histogram.RecordValues(min(ns, maxValue), int64(packets))
}

// countDeliveries returns the number of deliveries, and of those beyond the limit.
func (l *lateness) countDeliveries() (all, beyond uint64) {
	return uint64(l.histogram.TotalCount()), l.beyond
}

// summarize returns the distribution so far.
func (l *lateness) summarize() status.Lateness {
	time := func(ns int64) units.Time { return divideByDilation(ns, l.dilation) }
	at := func(q float64) units.Time { return time(l.histogram.ValueAtQuantile(q)) }
	s := status.Lateness{
		Count: uint64(l.histogram.TotalCount()), P50: at(50), P99: at(99), P999: at(99.9),
		Max: time(l.histogram.Max()), Mean: time(int64(l.histogram.Mean())),
		Limit: l.limit, Beyond: l.beyond,
	}
	if s.Count > 0 {
		s.Share = units.Fraction(float64(s.Beyond) / float64(s.Count))
	}
	return s
}

// SummarizeLateness returns the distribution so far over several drivers. It must be called
// while their threads are held, through Do, or after Run.
func SummarizeLateness(drivers ...*Driver) status.Lateness {
	all := newLateness(drivers[0].options.Limit)
	all.dilation = drivers[0].lateness.dilation
	for _, d := range drivers {
		all.histogram.Merge(d.lateness.histogram)
		all.beyond += d.lateness.beyond
	}
	return all.summarize()
}
