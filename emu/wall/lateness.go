package wall

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftlab/weft/sim/units"
)

// lateness is the distribution of how much later than its emulated time each
// packet was handed to a real host, in nanoseconds up to 10 s with three
// significant digits.
type lateness struct {
	histogram *hdrhistogram.Histogram
	limit     units.Time
	beyond    uint64
}

// newLateness counts deliveries later than limit apart.
func newLateness(limit units.Time) *lateness {
	return &lateness{histogram: hdrhistogram.New(1, 10_000_000_000, 3), limit: limit}
}

// record adds the delivery of packets.
func (l *lateness) record(late units.Time, packets int) {
	if late > l.limit {
		l.beyond += uint64(packets)
	}
	// Out of range is the only error, and the range is cut to.
	_ = l.histogram.RecordValues(min(max(int64(late/units.Nanosecond), 0), l.histogram.HighestTrackableValue()), int64(packets))
}

// counts gives the number of deliveries, and of those beyond the limit.
func (l *lateness) counts() (all, beyond uint64) {
	return uint64(l.histogram.TotalCount()), l.beyond
}

// Summary is a distribution of lateness in a few numbers.
type Summary struct {
	Count uint64     `json:"count"`
	Mean  units.Time `json:"mean"`
	P50   units.Time `json:"p50"`
	P99   units.Time `json:"p99"`
	P999  units.Time `json:"p99.9"`
	Max   units.Time `json:"max"`

	Limit  units.Time     `json:"limit"`
	Beyond uint64         `json:"beyond"` // deliveries later than Limit
	Share  units.Fraction `json:"share"`  // Beyond of Count
}

// summary gives the distribution so far.
func (l *lateness) summary() Summary {
	at := func(q float64) units.Time { return units.Time(l.histogram.ValueAtQuantile(q)) * units.Nanosecond }
	s := Summary{
		Count: uint64(l.histogram.TotalCount()), P50: at(50), P99: at(99), P999: at(99.9),
		Max: units.Time(l.histogram.Max()) * units.Nanosecond, Mean: units.Time(l.histogram.Mean()) * units.Nanosecond,
		Limit: l.limit, Beyond: l.beyond,
	}
	if s.Count > 0 {
		s.Share = units.Fraction(float64(s.Beyond) / float64(s.Count))
	}
	return s
}

// Lateness is the distribution so far over several drivers. It is called
// while their threads are held, through Do, or after Run.
func Lateness(drivers ...*Driver) Summary {
	all := newLateness(drivers[0].options.Limit)
	for _, d := range drivers {
		all.histogram.Merge(d.lateness.histogram)
		all.beyond += d.lateness.beyond
	}
	return all.summary()
}
