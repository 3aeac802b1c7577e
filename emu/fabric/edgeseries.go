package fabric

import (
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/series"
)

// maxEdgeRows is how many flows of an interface's edge service have rows at a time: a
// service may know a million of them. Those that come while there are as many have none.
// Tests have another.
var maxEdgeRows = 1000

// edges are the edge services, in the order of the plan.
func (f *Fabric) edges() (all []*edgeHost) {
	for _, s := range f.Stations {
		if s.edge != nil {
			all = append(all, s.edge)
		}
	}
	return all
}

// wantsEdge judges a flow of an edge service by its names: that of the interface, "" where
// it is not known yet, and that of a modelled flow, "" of others.
func (s *FlowSeries) wantsEdge(p *plan.Plan, node int, port, name string) bool {
	return len(s.Flows) == 0 || slices.ContainsFunc(s.Flows, func(pattern string) bool {
		return matchesName(pattern, p.Nodes[node].Name) || matchesName(pattern, port) || name != "" && matchesName(pattern, name)
	})
}

// edgeFlows are the flows of an edge service that are sampled.
type edgeFlows struct {
	*flows
	host    *edgeHost
	name    string // of the interface
	order   int32
	columns []int                   // of the gauges of its flows
	known   map[uint64]*flow        // by number; nil is one that has no rows
	ended   []*flow                 // since the last sample, with their last rows
	busy    int                     // flows that have rows, those that have ended included
	visit   func(x *edge.Flow) bool // looks at a flow in a sample
	now     units.Time              // of that sample

	begun, leftOut int // how many have had rows, and how many could have none
}

// followEdge begins to look at the flows of an edge service.
func followEdge(p *flows, h *edgeHost, order int32, columns []int) *edgeFlows {
	e := &edgeFlows{
		flows: p, host: h, name: p.fabric.Plan.PortName(h.station.Node, h.station.Index), order: order, columns: columns,
		known: map[uint64]*flow{},
	}
	e.visit = e.look
	h.service.Follow(e.gone)
	return e
}

// sample adds the rows of an instant.
func (e *edgeFlows) sample(now units.Time) {
	for _, x := range e.ended {
		x.row.At, x.row.Interval = now, now-x.at
		e.rows, e.of = append(e.rows, x.row), append(e.of, x)
	}
	e.now = now
	e.host.service.EachFlow(now, e.visit)
}

// release forgets the flows that have ended, whose last rows are written.
func (e *edgeFlows) release() {
	e.busy -= len(e.ended)
	clear(e.ended)
	e.ended = e.ended[:0]
}

// look adds the row of a flow.
func (e *edgeFlows) look(x *edge.Flow) bool {
	f := e.find(x)
	if f == nil || x.Aged && f.rests(x) {
		return true
	}
	first := len(e.values)
	for range e.gauges {
		e.values = append(e.values, gauge.None)
	}
	e.rows, e.of = append(e.rows, e.row(f, x, e.values[first:])), append(e.of, f)
	return true
}

// rests tells that a flow has done nothing since its last row.
func (f *flow) rests(x *edge.Flow) bool {
	return f.begun && f.sent == x.TxBytes && f.dropped == x.Dropped
}

// find finds what is known of a flow; nil if it has no rows.
func (e *edgeFlows) find(x *edge.Flow) *flow {
	f, known := e.known[x.Number]
	if known {
		return f
	}
	name := e.host.station.fabric.edgeFlow(e.host.station, x)
	switch {
	case !e.series.wantsEdge(e.fabric.Plan, e.host.station.Node, e.name, name.Flow):
	case e.busy == maxEdgeRows:
		e.leftOut++
	default:
		e.busy++
		e.begun++
		f = &flow{Flow: series.Flow{NIC: e.name, Name: name.Name()}, at: e.last}
	}
	e.known[x.Number] = f
	return f
}

// row gives the row of a flow, whose gauges go into values.
func (e *edgeFlows) row(f *flow, x *edge.Flow, values []float64) series.FlowSample {
	f.begun = true
	intoColumns(values, e.columns, x.Gauges)
	return series.FlowSample{
		At: e.now, Interval: e.now - f.at, Order: e.order, Flow: f.Flow,
		FlowReading: series.FlowReading{Rate: x.Rate, Waiting: x.Bytes, Sent: x.TxBytes - f.sent, Dropped: x.Dropped - f.dropped, Gauges: values},
	}
}

// gone keeps the last row of a flow that is forgotten, for the next sample. In virtual time
// other shards may run meanwhile: it touches nothing of theirs.
func (e *edgeFlows) gone(_ units.Time, x *edge.Flow) {
	if e.Closed() {
		return
	}
	f := e.find(x)
	delete(e.known, x.Number)
	switch {
	case f == nil:
	case f.rests(x):
		e.busy--
	default:
		values := make([]float64, e.gauges)
		for i := range values {
			values[i] = gauge.None
		}
		f.row = e.row(f, x, values)
		e.ended = append(e.ended, f)
	}
}
