package recording

import (
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// maxPassing is how many flows of an edge service, or of one traffic over TCP or NDP,
// have rows for an interface at a time: there may be a million of them. Flows that arrive
// while there are as many get no rows. Tests change it.
var maxPassing = 1000

// passing samples the flows of an interface that come and go: the flows of an edge
// service, or those of one traffic over TCP or NDP.
type passing struct {
	*flows
	name    string // of the interface
	order   int32
	columns []int            // of the gauges of their rate control
	known   map[uint64]*flow // by number; nil for a flow without rows
	ended   []*flow          // since the last sample, with their last rows
	busy    int              // flows with rows, including those that have ended
	now     units.Time       // of the sample

	begun, leftOut int // flows that have had rows, and flows that were left out
}

func newPassing(p *flows, name string, order int32, columns []int) passing {
	return passing{flows: p, name: name, order: order, columns: columns, known: map[uint64]*flow{}}
}

// begin starts a sample with the last rows of flows that have ended.
func (e *passing) begin(now units.Time) {
	e.now = now
	for _, x := range e.ended {
		x.row.At, x.row.Interval = now, now-x.at
		e.rows, e.of = append(e.rows, x.row), append(e.of, x)
	}
}

// release forgets the ended flows, whose last rows have been written.
func (e *passing) release() {
	e.busy -= len(e.ended)
	clear(e.ended)
	e.ended = e.ended[:0]
}

// find returns the state of a flow; nil if it has no rows. A new flow gets rows if it is
// wanted and there are fewer than maxPassing.
func (e *passing) find(number uint64, describe func() (f series.Flow, wanted bool)) *flow {
	f, known := e.known[number]
	if known {
		return f
	}
	switch name, wanted := describe(); {
	case !wanted:
	case e.busy == maxPassing:
		e.leftOut++
	default:
		e.busy++
		e.begun++
		f = &flow{Flow: name, at: e.last}
	}
	e.known[number] = f
	return f
}

// add adds a flow's row to the sample.
func (e *passing) add(f *flow, r series.FlowReading, gauges []float64) {
	first := len(e.values)
	for range e.gauges {
		e.values = append(e.values, gauge.None)
	}
	e.rows, e.of = append(e.rows, e.row(f, r, gauges, e.values[first:])), append(e.of, f)
}

// end keeps the last row of a flow for the next sample.
func (e *passing) end(f *flow, r series.FlowReading, gauges []float64) {
	values := make([]float64, e.gauges)
	for i := range values {
		values[i] = gauge.None
	}
	f.row = e.row(f, r, gauges, values)
	e.ended = append(e.ended, f)
}

// row returns the row of a flow, whose gauges go into values.
func (e *passing) row(f *flow, r series.FlowReading, gauges, values []float64) series.FlowSample {
	f.begun = true
	intoColumns(values, e.columns, gauges)
	r.Gauges = values
	return series.FlowSample{At: e.now, Interval: e.now - f.at, Order: e.order, Flow: f.Flow, FlowReading: r}
}
