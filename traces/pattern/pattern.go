// Package pattern is patterns of traffic: what hosts send each other, and when. A
// pattern is a state machine for each host that takes part, its agent. What an agent
// does depends on its own random stream and on what comes to or completes at its host,
// and on nothing else, so that agents share nothing.
package pattern

import "github.com/weftlab/weft/sim/units"

// Flow is one finite piece of data that one host sends to another.
type Flow struct {
	Tag      uint32      // carried with the data: tells both ends what it is, by the pattern's own coding
	From, To int         // hosts, as indices of the plan's nodes; From has the data
	Size     units.Bytes // at least 0
	At       units.Time  // when it was born, which may be before it is started
	Group    uint64      // request, collective or round that it belongs to; 0 for none
}

// Agent is what one host has of a pattern. Its methods are called by the host's engine,
// and call start for each flow that begins there and then.
type Agent interface {
	// Due is when Fire is to be called next; units.Never for not at all. Any other
	// call may change it.
	Due() units.Time
	// Fire does what is due at now.
	Fire(now units.Time, start func(Flow))
	// Arrived tells that all data of a flow to this host has come.
	Arrived(now units.Time, f Flow, start func(Flow))
	// Completed tells that a flow of this host is complete at its sender.
	Completed(now units.Time, f Flow, start func(Flow))
}

// Pattern makes the agents of the hosts that take part. What they do is determined by
// the pattern's seed and the host.
type Pattern interface {
	// Hosts are those that take part, as indices of the plan's nodes, rising.
	Hosts() []int
	// Agent makes the agent of a host; nil if it takes no part.
	Agent(host int) Agent
}
