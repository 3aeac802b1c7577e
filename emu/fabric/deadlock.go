package fabric

import (
	"slices"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

const (
	// deadlockCheck is how often Run looks for deadlocks.
	deadlockCheck = units.Millisecond
	// A queue counts as stuck after a pause of stuckTime plus the time that
	// stuckPackets packets of its link's MTU take. Queues that hold each other
	// back in congestion move on within a few.
	stuckTime    = units.Millisecond
	stuckPackets = 100
	// stalled is how long Run goes on after a deadlock if no host receives
	// anything any more and no length of the run is given.
	stalled = 100 * units.Millisecond
)

// place is a queue of a port.
type place struct {
	node, port int
	prio       uint8
}

// CheckDeadlocks looks for deadlocks now and records them. It returns the new
// ones. No shard may run meanwhile.
func (f *Fabric) CheckDeadlocks() (found []status.Deadlock) {
	found = f.UpdateDeadlocks()
	f.deadlocks = append(f.deadlocks, found...)
	return found
}

// UpdateDeadlocks finds out which of the recorded deadlocks last now. It returns others that it
// sees, which it does not record. No shard may run meanwhile.
func (f *Fabric) UpdateDeadlocks() (others []status.Deadlock) {
	now := f.Now()
	cycles := f.cycles(now)
	for i := range f.deadlocks {
		d := &f.deadlocks[i]
		if d.Ended > 0 {
			continue
		}
		if j := slices.IndexFunc(cycles, func(c status.Deadlock) bool { return c.String() == d.String() && c.Priority == d.Priority }); j >= 0 {
			d.Seen = now
			cycles = slices.Delete(cycles, j, j+1)
		} else {
			d.Ended = now
		}
	}
	return cycles
}

// Deadlocks returns what CheckDeadlocks has found so far.
func (f *Fabric) Deadlocks() []status.Deadlock { return f.deadlocks }

// locked reports whether a deadlock lasts.
func (f *Fabric) locked() bool {
	return slices.ContainsFunc(f.deadlocks, func(d status.Deadlock) bool { return d.Ended == 0 })
}

// cycles finds the cycles among the stuck queues.
func (f *Fabric) cycles(now units.Time) []status.Deadlock {
	stuck := map[place]units.Time{}
	next := map[place][]place{} // from a queue to the queues it waits for
	waits := map[place][]int{}  // from a queue to the ports through which its packets came in
	var order []place
	for n, sw := range f.Switches {
		if sw == nil || f.Plan.Nodes[n].QoS == nil {
			continue
		}
		for i, p := range sw.Ports {
			for _, j := range p.BlockedQueues() {
				if p.Link() == nil {
					continue
				}
				s := p.Link().Settings()
				if now-j.Since >= stuckTime+stuckPackets*s.Rate.TimeOf(packet.OnWire(s.MTU)) {
					at := place{n, i, j.Priority}
					stuck[at], waits[at] = j.Since, j.In
					order = append(order, at)
				}
			}
		}
	}
	for _, at := range order {
		plan := f.Plan.Nodes[at.node].Ports[at.port]
		far := f.Plan.Links[plan.Link].Ends[1-plan.End]
		for _, other := range order {
			if other.node == far.Node && slices.Contains(waits[other], far.Port) {
				next[at] = append(next[at], other)
			}
		}
	}
	var found []status.Deadlock
	done := map[place]bool{}
	for _, start := range order {
		if cycle := findCycle(start, next, done); cycle != nil {
			d := status.Deadlock{Priority: cycle[0].prio, Seen: now}
			for _, at := range cycle {
				d.Cycle = append(d.Cycle, f.Plan.PortName(at.node, at.port))
				d.Since = max(d.Since, stuck[at])
			}
			d.Class = f.Plan.Nodes[cycle[0].node].Ports[cycle[0].port].ClassName(d.Priority)
			found = append(found, d)
		}
	}
	return found
}

// findCycle follows the waits from start and returns the first cycle that it
// finds, beginning with its first queue in the plan. It records in done the
// queues that need no second look.
func findCycle(start place, next map[place][]place, done map[place]bool) []place {
	var path []place
	var visit func(at place) []place
	visit = func(at place) []place {
		if i := slices.Index(path, at); i >= 0 {
			return slices.Clone(path[i:])
		}
		if done[at] {
			return nil
		}
		path = append(path, at)
		for _, n := range next[at] {
			if c := visit(n); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		done[at] = true
		return nil
	}
	cycle := visit(start)
	for _, at := range path {
		done[at] = true
	}
	first := 0
	for i, at := range cycle {
		if at.node < cycle[first].node || at.node == cycle[first].node && at.port < cycle[first].port {
			first = i
		}
	}
	return append(cycle[first:len(cycle):len(cycle)], cycle[:first]...)
}

// Pauses reports whether any switch may hold off its neighbours, by pauses or for lack
// of credit.
func (f *Fabric) Pauses() bool { return f.guard.pauses }

func (f *Fabric) findPauses() bool {
	for n := range f.Plan.Nodes {
		node := &f.Plan.Nodes[n]
		if f.Switches[n] == nil || node.QoS == nil {
			continue
		}
		if node.QoS.Pause != nil {
			return true
		}
		for i := range node.Ports {
			for _, k := range node.Ports[i].Classes {
				if k.PFC != nil || k.Credits != nil {
					return true
				}
			}
		}
	}
	return false
}

// delivered counts the packets that hosts have received.
func (f *Fabric) delivered() (n uint64) {
	for _, iface := range f.Interfaces {
		n += iface.Delivered
	}
	return n
}
