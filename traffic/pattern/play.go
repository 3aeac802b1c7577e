package pattern

import (
	"container/heap"
	"iter"

	"github.com/weftlab/weft/sim/units"
)

// PlayFlows returns the flows that a pattern starts by its clock alone before until, in order
// of time and, at one instant, of hosts: all flows of an open loop, and those flows of a
// closed loop that do not wait for anything. until must be finite unless the pattern ends.
func PlayFlows(p Pattern, until units.Time) iter.Seq[Flow] {
	return func(yield func(Flow) bool) {
		var q agents
		for i, h := range p.Hosts() {
			if a := p.Agent(h); a != nil && a.NextFlow() < until {
				q = append(q, entry{a.NextFlow(), i, a})
			}
		}
		heap.Init(&q)
		going := true
		start := func(f Flow) { going = going && yield(f) }
		for len(q) > 0 && going {
			e := &q[0]
			e.agent.Fire(e.due, start)
			if e.due = e.agent.NextFlow(); e.due < until {
				heap.Fix(&q, 0)
			} else {
				heap.Pop(&q)
			}
		}
	}
}

type entry struct {
	due   units.Time
	order int
	agent Agent
}

// agents is a heap of agents, ordered by when they are due.
type agents []entry

func (q agents) Len() int { return len(q) }
func (q agents) Less(i, j int) bool {
	return q[i].due < q[j].due || q[i].due == q[j].due && q[i].order < q[j].order
}
func (q agents) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *agents) Push(x any)   { *q = append(*q, x.(entry)) }
func (q *agents) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
