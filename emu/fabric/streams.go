package fabric

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
)

// StreamCarrier carries flows over TCP or NDP.
type StreamCarrier interface {
	// EachFlow calls f for each flow that has a connection, in order of its beginning. x is
	// valid until f returns.
	EachFlow(now units.Time, f func(x *carrier.StreamFlow))
	// OnFlowEnd makes the carrier call gone when the connection of a flow ends.
	OnFlowEnd(gone func(now units.Time, x *carrier.StreamFlow))
}

// StreamHost carries the flows over TCP or NDP of one traffic at a host.
type StreamHost struct {
	StreamCarrier
	Interface *hosts.Interface
	Traffic   *plan.Traffic
	index     int // of the traffic in the plan
}

// StreamHosts returns the hosts of flows over TCP or NDP, by traffic and then by node. The
// rules of Device apply to their carriers.
func (f *Fabric) StreamHosts() []StreamHost { return f.traffic.streams }

// TCP returns the counters of the senders of flows over TCP so far, by traffic; nil for a
// traffic that does not use TCP. No shard may run meanwhile.
func (f *Fabric) TCP() []*tcp.Counters {
	all := make([]*tcp.Counters, len(f.Plan.Traffic))
	for i := range f.traffic.streams {
		h := &f.traffic.streams[i]
		d, ok := h.StreamCarrier.(*carrier.Streams)
		if !ok {
			continue
		}
		if all[h.index] == nil {
			all[h.index] = &tcp.Counters{}
		}
		all[h.index].AddCounters(d.Counters())
	}
	return all
}

// NDP returns the counters of the senders of flows over NDP so far, by traffic; nil for a
// traffic that does not use NDP. No shard may run meanwhile.
func (f *Fabric) NDP() []*ndp.Counters {
	all := make([]*ndp.Counters, len(f.Plan.Traffic))
	for i := range f.traffic.streams {
		h := &f.traffic.streams[i]
		d, ok := h.StreamCarrier.(*carrier.PulledStreams)
		if !ok {
			continue
		}
		if all[h.index] == nil {
			all[h.index] = &ndp.Counters{}
		}
		all[h.index].AddCounters(d.Counters())
	}
	return all
}
