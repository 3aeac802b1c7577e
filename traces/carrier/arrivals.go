package carrier

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/pattern"
)

// A NIC may have delays (nicemu.Delays). What the carrier does for a flow that has come
// whole it does at once: the next one on that connection may come before a program would
// have seen this one's completion. Only the agent, which is such a program, hears of the
// flow then.

// arrivals are flows that have come, on their way to the agents, in order.
type arrivals struct {
	latency cq.Latency
	queue   []arrival
	head    int
}

// arrival is a flow that has come, and when its agent hears of it.
type arrival struct {
	at      units.Time
	traffic int
	flow    pattern.Flow
}

// arrived handles a flow that has come whole, by a completion.
func (n *NIC) arrived(now units.Time, traffic int, f pattern.Flow, key uint64, c *cq.Completion) {
	a := &n.told
	if a.latency == (cq.Latency{}) {
		n.host.Arrived(now, traffic, f, key)
		return
	}
	n.host.log.Arrived(key, now)
	at := now + a.latency.Of(c)
	if k := len(a.queue); k > a.head {
		at = max(at, a.queue[k-1].at)
	}
	if len(a.queue) == cap(a.queue) && 2*a.head >= len(a.queue) {
		a.queue, a.head = a.queue[:copy(a.queue, a.queue[a.head:])], 0
	}
	a.queue = append(a.queue, arrival{at, traffic, f})
}

// tell tells agents of flows that they are to hear of by now.
func (n *NIC) tell(now units.Time) {
	a := &n.told
	for ; a.head < len(a.queue); a.head++ {
		x := a.queue[a.head]
		if x.at > now {
			n.host.Wake(x.at)
			return
		}
		n.host.Arrived(now, x.traffic, x.flow, 0)
	}
	a.queue, a.head = a.queue[:0], 0
}
