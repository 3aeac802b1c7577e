package recording

import (
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
)

// wantsEdge reports whether the series includes a flow of an edge service. port is the
// name of the interface, "" if it is not known yet. name is the name of a modelled flow,
// "" for others.
func (s *FlowSeries) wantsEdge(p *plan.Plan, node int, port, name string) bool {
	return len(s.Flows) == 0 || slices.ContainsFunc(s.Flows, func(pattern string) bool {
		return matchesName(pattern, p.Nodes[node].Name) || matchesName(pattern, port) || name != "" && matchesName(pattern, name)
	})
}

// edgeFlows are the sampled flows of an edge service.
type edgeFlows struct {
	passing
	iface *hosts.Interface
	visit func(x *edge.Flow) bool // handles a flow in a sample
}

// followEdge starts to follow the flows of an edge service.
func followEdge(p *flows, iface *hosts.Interface, order int32, columns []int) *edgeFlows {
	name := p.fabric.Plan.PortName(iface.Node, iface.Index)
	e := &edgeFlows{passing: newPassing(p, name, order, columns), iface: iface}
	e.visit = e.look
	iface.EdgeService().OnFlowEnd(e.keepLastRow)
	return e
}

// sample adds the rows of an instant.
func (e *edgeFlows) sample(now units.Time) {
	e.begin(now)
	e.iface.EdgeService().EachFlow(now, e.visit)
}

// look adds the row of a flow.
func (e *edgeFlows) look(x *edge.Flow) bool {
	if f := e.flow(x); f != nil && !(x.Aged && f.rests(x)) {
		e.add(f, f.readEdge(x), x.Gauges)
	}
	return true
}

// rests reports whether a flow has done nothing since its last row.
func (f *flow) rests(x *edge.Flow) bool {
	return f.begun && f.sent == x.TxBytes && f.dropped == x.Dropped
}

// readEdge returns the reading of a flow of an edge service.
func (f *flow) readEdge(x *edge.Flow) series.FlowReading {
	return series.FlowReading{Rate: x.Rate, Waiting: x.Bytes, Sent: x.TxBytes - f.sent, Dropped: x.Dropped - f.dropped}
}

// flow returns the state of a flow; nil if it has no rows.
func (e *edgeFlows) flow(x *edge.Flow) *flow {
	return e.find(x.Number, func() (series.Flow, bool) {
		name := e.fabric.EdgeFlow(e.iface, x)
		return series.Flow{NIC: e.name, Name: name.Name()}, e.series.wantsEdge(e.fabric.Plan, e.iface.Node, e.name, name.Flow)
	})
}

// keepLastRow keeps the last row of a forgotten flow for the next sample. In virtual time other
// shards may run meanwhile, so it touches nothing of theirs.
func (e *edgeFlows) keepLastRow(_ units.Time, x *edge.Flow) {
	if e.IsClosed() {
		return
	}
	f := e.flow(x)
	delete(e.known, x.Number)
	switch {
	case f == nil:
	case f.rests(x):
		e.busy--
	default:
		e.end(f, f.readEdge(x), x.Gauges)
	}
}
