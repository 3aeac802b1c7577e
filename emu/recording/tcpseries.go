package recording

import (
	"slices"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
)

// wantsTCP reports whether the series includes the flows over TCP or NDP of a traffic, by
// the names of their interface and traffic.
func (s *FlowSeries) wantsTCP(p *plan.Plan, node int, port, traffic string) bool {
	return len(s.Flows) == 0 || slices.ContainsFunc(s.Flows, func(pattern string) bool {
		return matchesName(pattern, p.Nodes[node].Name) || matchesName(pattern, port) || matchesName(pattern, traffic)
	})
}

// tcpFlows are the sampled flows over TCP or NDP from a host.
type tcpFlows struct {
	passing
	host  *fabric.StreamHost
	visit func(x *carrier.StreamFlow) // handles a flow in a sample
}

// followTCP starts to follow the flows over TCP or NDP from a host. It returns nil if the
// series includes none of them.
func followTCP(p *flows, h *fabric.StreamHost, order int32, columns []int) *tcpFlows {
	node := h.Interface.Node
	name := p.fabric.Plan.PortName(node, h.Interface.Index)
	if !p.series.wantsTCP(p.fabric.Plan, node, name, h.Traffic.Name) {
		return nil
	}
	e := &tcpFlows{passing: newPassing(p, name, order, columns), host: h}
	e.visit = func(x *carrier.StreamFlow) {
		if f := e.flow(x); f != nil {
			e.add(f, f.readTCP(x), x.Gauges)
		}
	}
	h.OnFlowEnd(e.keepLastRow)
	return e
}

// sample adds the rows of an instant.
func (e *tcpFlows) sample(now units.Time) {
	e.begin(now)
	e.host.EachFlow(now, e.visit)
}

// readTCP returns the reading of a flow over TCP or NDP.
func (f *flow) readTCP(x *carrier.StreamFlow) series.FlowReading {
	return series.FlowReading{
		Rate: x.Rate, Window: x.Window, InFlight: x.InFlight, RTT: x.RTT,
		Acked: uint64(x.Acked) - f.acked, Resent: x.Resent - f.resent,
	}
}

// flow returns the state of a flow; nil if it has no rows.
func (e *tcpFlows) flow(x *carrier.StreamFlow) *flow {
	return e.find(x.ID, func() (series.Flow, bool) {
		return series.Flow{NIC: e.name, Transfer: e.host.Traffic.Name, Name: x.Name()}, true
	})
}

// keepLastRow keeps the last row of an ended flow for the next sample. In virtual time other
// shards may run meanwhile, so it touches nothing of theirs.
func (e *tcpFlows) keepLastRow(_ units.Time, x *carrier.StreamFlow) {
	if e.IsClosed() {
		return
	}
	f := e.flow(x)
	delete(e.known, x.ID)
	if f != nil {
		e.end(f, f.readTCP(x), x.Gauges)
	}
}
