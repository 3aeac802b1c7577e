package fabric

import (
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
)

// streamCarrier carries flows over TCP or NDP.
type streamCarrier interface {
	EachFlow(now units.Time, f func(x *carrier.StreamFlow))
	OnFlowEnd(gone func(now units.Time, x *carrier.StreamFlow))
}

// streamHost carries the flows over TCP or NDP of one traffic at a host.
type streamHost struct {
	streamCarrier
	station *Station
	traffic *plan.Traffic
	index   int // of the traffic in the plan
}

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
	host  *streamHost
	visit func(x *carrier.StreamFlow) // handles a flow in a sample
}

// followTCP starts to follow the flows over TCP or NDP from a host. It returns nil if the
// series includes none of them.
func followTCP(p *flows, h *streamHost, order int32, columns []int) *tcpFlows {
	node := h.station.Node
	name := p.fabric.Plan.PortName(node, h.station.Index)
	if !p.series.wantsTCP(p.fabric.Plan, node, name, h.traffic.Name) {
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
		return series.Flow{NIC: e.name, Transfer: e.host.traffic.Name, Name: x.Name()}, true
	})
}

// keepLastRow keeps the last row of an ended flow for the next sample. In virtual time other
// shards may run meanwhile, so it touches nothing of theirs.
func (e *tcpFlows) keepLastRow(_ units.Time, x *carrier.StreamFlow) {
	if e.Closed() {
		return
	}
	f := e.flow(x)
	delete(e.known, x.ID)
	if f != nil {
		e.end(f, f.readTCP(x), x.Gauges)
	}
}

// TCP returns the counters of the senders of flows over TCP so far, by traffic; nil for a
// traffic that does not use TCP. No shard may run meanwhile.
func (f *Fabric) TCP() []*tcp.Counters {
	all := make([]*tcp.Counters, len(f.Plan.Traffic))
	for i := range f.traffic.streams {
		h := &f.traffic.streams[i]
		d, ok := h.streamCarrier.(*carrier.Streams)
		if !ok {
			continue
		}
		if all[h.index] == nil {
			all[h.index] = &tcp.Counters{}
		}
		all[h.index].Add(d.Counters())
	}
	return all
}

// NDP returns the counters of the senders of flows over NDP so far, by traffic; nil for a
// traffic that does not use NDP. No shard may run meanwhile.
func (f *Fabric) NDP() []*ndp.Counters {
	all := make([]*ndp.Counters, len(f.Plan.Traffic))
	for i := range f.traffic.streams {
		h := &f.traffic.streams[i]
		d, ok := h.streamCarrier.(*carrier.PulledStreams)
		if !ok {
			continue
		}
		if all[h.index] == nil {
			all[h.index] = &ndp.Counters{}
		}
		all[h.index].Add(d.Counters())
	}
	return all
}
