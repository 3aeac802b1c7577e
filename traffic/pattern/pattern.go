// Package pattern generates flows: patterns of traffic as used in papers, as pure state
// machines that decide which flows hosts start, and when.
//
// A pattern has an agent for each host. An agent is told the time, what has arrived at its
// host and what its host has sent completely, and starts flows. Agents share no mutable
// state, so each may run in parallel with the others, but for those of a set of Together;
// their random numbers come from
// streams that depend only on the seed, the pattern's name and the host. So an open loop
// (Arrivals, List without triggers, Requests at times of their own) generates the same
// flows whatever happens to them.
//
// Patterns that are generated keep no list of their flows: an agent knows its next one.
package pattern

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Flow is a finite amount of data to send.
type Flow struct {
	// Tag travels with the data and identifies it to the agents at both ends, in the
	// pattern's own encoding.
	Tag      uint32
	From, To int         // hosts: indices into the plan's nodes; From has the data
	Size     units.Bytes // at least 1
	At       units.Time  // when it was created; before the present if it had to wait
	// Group is the request, burst, iteration or whole of a pattern that the flow belongs
	// to: a group is complete when all its flows are. It is unique within a pattern; 0
	// means none.
	Group uint64
}

// Agent is the part of a pattern at one host. Each call may change NextFlow. Flows that a call
// starts are passed to start, in order; start does not call the agent back.
type Agent interface {
	// NextFlow returns when to call Fire next; units.Never means not before something arrives
	// or is completed.
	NextFlow() units.Time
	// Fire starts the flows that are due at now or earlier.
	Fire(now units.Time, start func(Flow))
	// OnArrival reports that all data of a flow to this host has arrived. From, To, Size and
	// Tag are set, as the data carries them; other fields are ignored.
	OnArrival(now units.Time, f Flow, start func(Flow))
	// OnCompletion reports that a flow started by this agent is complete at its sender:
	// acknowledged, if the carrier has acknowledgements.
	OnCompletion(now units.Time, f Flow, start func(Flow))
}

// Pattern makes agents.
type Pattern interface {
	// Hosts returns the hosts that flows come from or go to, ascending.
	Hosts() []int
	// Agent makes the agent of a host in its initial state. Calls for the same host return
	// equal, independent agents. It returns nil for a host that starts no flows.
	Agent(host int) Agent
}

// Linked is an agent that starts flows at other hosts of its set (Together).
type Linked interface {
	Agent
	// LinkAgents gives the agent the way to those of other hosts: peer returns the agent of a
	// host, and what starts a flow there. It is called before the run.
	LinkAgents(peer func(host int) (Agent, func(Flow)))
}

// together is a Pattern with sets of hosts between which its agents act.
type together interface{ Together() [][]int }

// Together returns the sets of hosts of a pattern that one engine must run, because agents of one
// host start flows at another at the same instant.
func Together(p Pattern) [][]int {
	if p, ok := p.(together); ok {
		return p.Together()
	}
	return nil
}

// open is a Pattern that may be an open loop.
type open interface{ isOpenLoop() bool }

// IsOpenLoop reports whether a pattern creates flows again and again, whatever becomes of earlier
// ones (Arrivals, and Requests at times of their own). A network that does not carry what such a
// pattern offers has no steady state.
func IsOpenLoop(p Pattern) bool {
	o, ok := p.(open)
	return ok && o.isOpenLoop()
}

// openLoop is the part of an agent that ignores the outcome of its flows.
type openLoop struct{}

func (openLoop) OnArrival(units.Time, Flow, func(Flow))    {}
func (openLoop) OnCompletion(units.Time, Flow, func(Flow)) {}

// basic is the part of a pattern that holds the participating hosts.
type basic struct{ hosts []int }

func (b basic) Hosts() []int { return b.hosts }

// unionHosts returns the hosts of several lists without duplicates, ascending.
func unionHosts(lists ...[]int) []int {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// checkHosts rejects lists with too few hosts or with duplicates.
func checkHosts(what string, hosts []int, minHosts int) error {
	if len(hosts) < minHosts {
		return fmt.Errorf("%s: %d hosts, at least %d are needed", what, len(hosts), minHosts)
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

// checkTimes rejects spans of time in which nothing can start. A stop of 0 means none.
func checkTimes(start, stop units.Time) error {
	if start < 0 || stop < 0 {
		return errors.New("start and stop must not be negative")
	}
	if stop != 0 && stop <= start {
		return fmt.Errorf("stop at %v is not after start at %v", stop, start)
	}
	return nil
}

// hasEnded reports whether no flow is created from t on.
func hasEnded(t, stop units.Time) bool { return t == units.Never || stop != 0 && t >= stop }
