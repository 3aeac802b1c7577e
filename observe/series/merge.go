package series

import "github.com/weftlab/weft/sim/units"

// Merger merges rows of a queue into longer intervals, over which rates mean
// more: in 10us a link sends one packet or none.
type Merger struct {
	over units.Time
	open map[Source]*Row
}

// NewMerger makes a Merger for intervals of at least the given length.
func NewMerger(over units.Time) *Merger { return &Merger{over, map[Source]*Row{}} }

// AddRow takes a row and returns the merged one, with true when its interval is
// long enough. It is valid until the next row of the same queue.
func (m *Merger) AddRow(r *Row) (*Row, bool) {
	if r.Interval >= m.over {
		return r, true
	}
	x := m.open[r.Source]
	if x == nil {
		x = &Row{Source: r.Source}
		m.open[r.Source] = x
	}
	gauges := append(x.Gauges[:0], r.Gauges...)
	if x.Interval >= m.over || x.Interval == 0 {
		*x = *r
	} else {
		x.At, x.Interval = r.At, x.Interval+r.Interval
		x.Queue, x.QueueMax = r.Queue, max(x.QueueMax, r.QueueMax)
		x.TxBytes += r.TxBytes
		x.RxBytes += r.RxBytes
		x.Dropped += r.Dropped
		x.Marked += r.Marked
		x.Trimmed += r.Trimmed
		x.Reading.Paused += r.Reading.Paused
	}
	x.Gauges = gauges // of the last moment
	return x, x.Interval >= m.over
}
