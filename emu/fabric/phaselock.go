package fabric

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/traffic/workload"
)

// What counts as a phase lock. In an overloaded network that is not in phase a packet may be
// lost five times in succession (papers/systems/labs/leaf-spine.yaml).
const (
	lockedTimes  = 6   // losses of one packet in succession, or as many as make its sender give up,
	fewestTimes  = 3   // but not fewer
	lockedShare  = 0.9 // of a flow's packets that are lost, at least
	freeShare    = 0.1 // of those of an equal flow, at most
	lockedLosses = 100 // packets of the flow that are lost, at least
)

// PhaseLocks returns where packets were lost again and again in the same way, because senders'
// clocks agree exactly. No shard may run meanwhile.
func (f *Fabric) PhaseLocks() (all []status.PhaseLock) {
	for n, ports := range f.ports {
		for i, p := range ports {
			losers := p.Losers()
			for k := range losers {
				if x := &losers[k]; x.Kind == packet.NIC {
					all = f.appendLockedQP(all, p, x)
				} else {
					all = f.appendLockedFlow(all, plan.End{Node: n, Port: i}, losers, x)
				}
			}
		}
	}
	return all
}

// appendLockedQP appends a queue pair of which a port dropped the same packet again and again.
func (f *Fabric) appendLockedQP(all []status.PhaseLock, p *port.Port, x *port.Loser) []status.PhaseLock {
	from := f.interfaceOf(x.From)
	if from == nil {
		return all
	}
	times := uint32(lockedTimes)
	if nic := f.Plan.Nodes[from.Node].NIC; nic != nil {
		times = max(fewestTimes, min(times, uint32(nic.RetryCount)+1))
	}
	if x.Times < times {
		return all
	}
	return append(all, status.PhaseLock{Port: p.Name, From: from.Port.Name, To: x.To.To.String(), QPN: x.QPN, PSN: x.PSN, Times: x.Times, Drifting: f.clocks[from.Node] != nil})
}

// appendLockedFlow appends a flow of which a port dropped nearly all packets, if it dropped few
// of another one of the same rate and class that passes it at the same time.
func (f *Fabric) appendLockedFlow(all []status.PhaseLock, at plan.End, losers []port.Loser, x *port.Loser) []status.PhaseLock {
	flow := &f.Plan.Flows[x.Flow]
	share := f.Records[x.Flow].ShareOfEnded(x.Lost)
	if flow.Pattern != workload.CBR || x.Lost < lockedLosses || share < lockedShare {
		return all
	}
	lost := map[int32]uint64{}
	for i := range losers {
		if losers[i].Kind == packet.Modelled {
			lost[losers[i].Flow] = losers[i].Lost
		}
	}
	for i := range f.Plan.Flows {
		other := &f.Plan.Flows[i]
		n, loses := lost[int32(i)]
		if int32(i) == x.Flow || other.Pattern != flow.Pattern || other.Rate != flow.Rate || other.Size != flow.Size || other.DSCP != flow.DSCP ||
			!loses && !f.passes(i, at) || !f.Records[i].Overlaps(f.Records[x.Flow]) {
			continue
		}
		if free := f.Records[i].ShareOfEnded(n); free <= freeShare {
			return append(all, status.PhaseLock{
				Port: f.ports[at.Node][at.Port].Name, Flow: flow.Name, Share: share, Other: other.Name, OtherLoss: free,
				OneHost: endOf(f.flowEnds[x.Flow][0].iface) == at, Drifting: f.clocks[flow.From] != nil,
			})
		}
	}
	return all
}

// passes reports whether a flow certainly leaves through a port: the one that it starts at, or
// the one on its receiver's link.
func (f *Fabric) passes(flow int, at plan.End) bool {
	if endOf(f.flowEnds[flow][0].iface) == at {
		return true
	}
	p := &f.Plan.Nodes[at.Node].Ports[at.Port]
	return p.Link >= 0 && f.Plan.Links[p.Link].Ends[1-p.End] == endOf(f.flowEnds[flow][1].iface)
}
