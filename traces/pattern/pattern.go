// Package pattern says which flows hosts start, and when: patterns of traffic as papers
// have them, as pure state machines.
//
// A pattern has an agent for each host. An agent is told the time, what has arrived at its
// host and what its host has sent completely, and says which flows start. Agents share
// nothing that changes, so each may run beside the others; what they draw comes from
// streams that depend on the seed, the pattern's name and the host alone. So an open loop
// (Arrivals, List without triggers, Requests at times of their own) gives the same flows
// whatever becomes of them.
//
// Patterns that are generated keep no list of their flows: an agent knows its next one.
package pattern

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Flow is one piece of data to send.
type Flow struct {
	// Tag goes with the data and tells the agents at both ends what it is, in the
	// pattern's own coding.
	Tag      uint32
	From, To int         // hosts: indices into the plan's nodes; From has the data
	Size     units.Bytes // at least 1
	At       units.Time  // when it was born; before the present if it had to wait
	// Group is the request, burst, iteration or whole of a pattern that the flow belongs
	// to: a group is complete when all its flows are. It is unique within a pattern, and
	// 0 for none.
	Group uint64
}

// Agent is what one host has of a pattern. Each call may change Due. Flows that a call
// starts are handed to start, in order; start does not call the agent back.
type Agent interface {
	// Due is when Fire is to be called next; units.Never for not at all, unless something
	// arrives or is completed.
	Due() units.Time
	// Fire starts what is due at now or was before.
	Fire(now units.Time, start func(Flow))
	// Arrived says that all data of a flow to this host has come. From, To, Size and Tag
	// are set, as the data carries them; nothing else is looked at.
	Arrived(now units.Time, f Flow, start func(Flow))
	// Completed says that a flow which this agent started is complete at its sender:
	// acknowledged, if the carrier has acknowledgements.
	Completed(now units.Time, f Flow, start func(Flow))
}

// Pattern makes agents.
type Pattern interface {
	// Hosts are those that flows come from or go to, ascending.
	Hosts() []int
	// Agent makes the agent of a host at its beginning. Calls for the same host give equal
	// agents that do not know of each other. It is nil for a host that starts no flows.
	Agent(host int) Agent
}

// openLoop is the part of an agent that does not care what becomes of its flows.
type openLoop struct{}

func (openLoop) Arrived(units.Time, Flow, func(Flow))   {}
func (openLoop) Completed(units.Time, Flow, func(Flow)) {}

// basic is the part of a pattern that has to do with who takes part.
type basic struct{ hosts []int }

func (b basic) Hosts() []int { return b.hosts }

// union gives all hosts of several lists once, ascending.
func union(lists ...[]int) []int {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// checkHosts refuses lists of hosts with too few, or one twice.
func checkHosts(what string, hosts []int, least int) error {
	if len(hosts) < least {
		return fmt.Errorf("%s: %d hosts, at least %d are needed", what, len(hosts), least)
	}
	seen := make(map[int]bool, len(hosts))
	for _, h := range hosts {
		if h < 0 {
			return fmt.Errorf("%s: %d is not a host", what, h)
		}
		if seen[h] {
			return fmt.Errorf("%s: duplicate host %d", what, h)
		}
		seen[h] = true
	}
	return nil
}

// checkTimes refuses spans of time in which nothing can start. A stop of 0 is none.
func checkTimes(start, stop units.Time) error {
	if start < 0 || stop < 0 {
		return errors.New("start and stop must not be negative")
	}
	if stop != 0 && stop <= start {
		return fmt.Errorf("stop at %v is not after start at %v", stop, start)
	}
	return nil
}

// ended tells whether no flow is born at t any more.
func ended(t, stop units.Time) bool { return t == units.Never || stop != 0 && t >= stop }
