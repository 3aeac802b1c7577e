package doctor

import (
	"cmp"
	"slices"
)

// Verdict is what a finding means for labs.
type Verdict string

// Verdicts.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn" // labs run, but not as well, or not all of them
	Bad  Verdict = "bad"  // no lab with real hosts runs
)

// Groups of checks, in the order in which they are shown.
const (
	groupMachine    = "machine"
	groupPrivileges = "privileges"
	groupKernel     = "kernel"
	groupLimits     = "limits"
	groupTools      = "tools"
)

var groups = []string{groupMachine, groupPrivileges, groupKernel, groupLimits, groupTools}

// Check is one finding.
type Check struct {
	Group   string  `json:"group"` // machine, privileges, kernel, limits, tools
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	Means   string  `json:"means,omitempty"` // what follows from it
	Fix     string  `json:"fix,omitempty"`   // a command if there is one
}

// sortChecks sorts the checks by group and keeps their order within a group.
func sortChecks(c []Check) {
	slices.SortStableFunc(c, func(a, b Check) int {
		return cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group))
	})
}
