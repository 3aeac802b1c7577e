package series

import (
	"math"
	"slices"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Statistics summarises the rows of one queue.
type Statistics struct {
	Port  string     `json:"port"`
	Class string     `json:"class,omitempty"`
	Rows  uint64     `json:"rows"`
	From  units.Time `json:"from"` // beginning of the first interval
	To    units.Time `json:"to"`   // the last sample

	// Of the samples, each counted once. The maximum covers the intervals where
	// it is known.
	QueueMean float64     `json:"queue_mean_bytes"`
	QueueP50  units.Bytes `json:"queue_p50"`
	QueueP99  units.Bytes `json:"queue_p99"`
	QueueMax  units.Bytes `json:"queue_max"`

	TxRate float64 `json:"tx_bps"` // mean
	RxRate float64 `json:"rx_bps"` // mean, of ports as a whole

	// Sums over the intervals.
	TxBytes uint64     `json:"tx_bytes"`
	RxBytes uint64     `json:"rx_bytes"`
	Dropped uint64     `json:"dropped_packets"`
	Marked  uint64     `json:"marked_packets"`
	Trimmed uint64     `json:"trimmed_packets"`
	Paused  units.Time `json:"paused"`

	Gauges []Measured `json:"gauges,omitempty"` // gauges with columns

	Known bool       `json:"-"` // a row had the requested quantity
	Peak  float64    `json:"-"` // its largest value, at least 0
	every units.Time // the usual interval
}

// IsTooShort reports whether a row's interval, the last of a run, is too short
// for its rates to mean anything: a frame counts when its first bit leaves.
func (s *Statistics) IsTooShort(r *Row) bool { return 2*r.Interval < s.every }

// Statistician summarises rows by queue.
type Statistician struct {
	quantity Quantity
	gauges   []Measured // still empty
	merger   *Merger
	order    []*tally
	queues   map[Source]*tally
}

// tally accumulates the rows of one queue. Queue lengths are sums of a few
// packet sizes, so they take few values: counting each is exact and takes
// little memory.
type tally struct {
	Statistics
	seconds units.Time // covered by the intervals
	sum     float64    // of the queue's lengths
	lengths map[units.Bytes]uint64
}

// NewStatistician makes a Statistician that finds the largest values of a quantity, for
// rates over intervals of at least the given length. gauges are the gauges of the rows.
func NewStatistician(q Quantity, over units.Time, gauges ...Gauge) *Statistician {
	s := &Statistician{quantity: q, merger: NewMerger(over), queues: map[Source]*tally{}}
	for _, g := range gauges {
		s.gauges = append(s.gauges, Measured{Name: g.Name, Of: strings.TrimSuffix(ownerPrefixes[g.Of], "_"), Unit: g.Unit})
	}
	return s
}

// AddRow adds a row.
func (s *Statistician) AddRow(r *Row) {
	t := s.queues[r.Source]
	if t == nil {
		t = &tally{lengths: map[units.Bytes]uint64{}}
		t.Port, t.Class, t.From, t.every = r.Port, r.Class, r.At-r.Interval, r.Interval
		t.Gauges = slices.Clone(s.gauges)
		s.queues[r.Source] = t
		s.order = append(s.order, t)
	}
	t.Rows++
	t.From, t.To = min(t.From, r.At-r.Interval), max(t.To, r.At)
	t.seconds += r.Interval
	t.sum += float64(r.Queue)
	t.lengths[r.Queue]++
	t.QueueMax = max(t.QueueMax, r.Queue, r.QueueMax)
	t.TxBytes += r.TxBytes
	t.RxBytes += r.RxBytes
	t.Dropped += r.Dropped
	t.Marked += r.Marked
	t.Trimmed += r.Trimmed
	t.Paused += r.Reading.Paused
	for i := range t.Gauges {
		if v := r.Gauges[i]; !math.IsNaN(v) {
			t.Gauges[i].AddValue(v, r.Interval)
		}
	}
	if s.quantity.IsRate() {
		var whole bool
		if r, whole = s.merger.AddRow(r); !whole || t.IsTooShort(r) {
			return
		}
	}
	if v, ok := s.quantity.ValueIn(r); ok {
		t.Known = true
		t.Peak = max(t.Peak, v)
	}
}

// Statistics returns the statistics of each queue, in the order of their first rows.
func (s *Statistician) Statistics() []Statistics {
	out := make([]Statistics, 0, len(s.order))
	for _, t := range s.order {
		x := t.Statistics
		x.QueueMean = t.sum / float64(t.Rows)
		x.QueueP50, x.QueueP99 = t.lengthAt(0.50), t.lengthAt(0.99)
		x.TxRate, x.RxRate = float64(x.TxBytes)*8/t.seconds.Seconds(), float64(x.RxBytes)*8/t.seconds.Seconds()
		out = append(out, x)
	}
	return out
}

// lengthAt returns the smallest length that at least the share q of the samples
// do not exceed.
func (t *tally) lengthAt(q float64) units.Bytes {
	lengths := make([]units.Bytes, 0, len(t.lengths))
	for l := range t.lengths {
		lengths = append(lengths, l)
	}
	slices.Sort(lengths)
	var seen uint64
	for _, l := range lengths {
		if seen += t.lengths[l]; float64(seen) >= q*float64(t.Rows) {
			return l
		}
	}
	return 0
}
