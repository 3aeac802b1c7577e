package carrier

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// A NIC may have delays (nicemu.Delays). The carrier's own work for a flow that has
// arrived completely is done at once: the next flow on that connection may arrive before
// a program would have seen this one's completion. Only the agent, which is such a
// program, is told after the delay.

// arrivals are flows that have arrived but are not yet reported to the agents, in order.
type arrivals struct {
	latency cq.Latency
	queue   queue.FIFO[arrival]
}

// arrival is a flow that has arrived, and when its agent is told.
type arrival struct {
	at      units.Time
	traffic int
	flow    pattern.Flow
}

// flowArrived handles the completion of a flow that has arrived completely.
func (n *NIC) flowArrived(now units.Time, traffic int, f pattern.Flow, key uint64, c *cq.Completion) {
	a := &n.told
	if a.latency == (cq.Latency{}) {
		n.host.FlowArrived(now, traffic, f, key)
		return
	}
	n.host.log.RecordArrival(key, now)
	at := now + a.latency.LatencyOf(c)
	if a.queue.Len() > 0 {
		at = max(at, a.queue.Last().at)
	}
	a.queue.Push(arrival{at, traffic, f})
}

// reportFlows reports flows to the agents that are due to be told by now.
func (n *NIC) reportFlows(now units.Time) {
	a := &n.told
	for a.queue.Len() > 0 {
		if at := a.queue.First().at; at > now {
			n.host.WakeAt(at)
			return
		}
		x := a.queue.Pop()
		n.host.FlowArrived(now, x.traffic, x.flow, 0)
	}
}
