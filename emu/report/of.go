package report

import (
	"fmt"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// The clocks that reports name.
const (
	Virtual = "virtual"
	Wall    = "wall"
)

// Network is what a report reads from a network that stands still: a fabric.
type Network interface {
	Now() units.Time
	Events() uint64
	Trace() uint64
	Accounts() status.Accounts
	Status() []status.Port
	BusySwitches() []status.Switch
	NICs() []status.NIC
	Results() []workload.Result
	Transfers() []workload.TransferResult
	Outages() []workload.Outage
	Deadlocks() []status.Deadlock
	PhaseLocks() []status.PhaseLock
}

// Of returns the report of a network as it is now, built from p and driven by a clock,
// Virtual or Wall. It has what both clocks have: in virtual time also the trace, in
// wall-clock time the dilation. timeline is what has happened to the network. The caller
// adds what it alone knows, such as real hosts and recordings. The network must stand
// still during the call.
func Of(clock string, p *plan.Plan, n Network, timeline []status.Moment) *Report {
	r := &Report{
		Lab: p.Name, File: p.File, Clock: clock, Seed: p.Seed, Emulated: n.Now(), Events: n.Events(), NodeClocks: NodeClocks(p),
		Accounts: n.Accounts(), Ports: n.Status(), Switches: n.BusySwitches(), NICs: n.NICs(), Flows: n.Results(),
		Timeline: timeline, Outages: n.Outages(), Deadlocks: n.Deadlocks(), PhaseLocks: n.PhaseLocks(),
	}
	if clock == Wall {
		r.Dilation = p.Dilation
	} else {
		r.Trace = fmt.Sprintf("%016x", n.Trace())
	}
	r.SetTransfers(n.Transfers())
	return r
}
