package report

import (
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// Sample is the state of a running lab at one moment, cheap enough to request
// every second. Everything in it was read while no packet moved, so sums of its
// counters are consistent. Counters only grow while the lab lives; the
// difference of two samples divided by the difference of Emulated is a rate.
type Sample struct {
	Lab      string     `json:"lab"`
	Clock    string     `json:"clock"`    // wall or virtual
	Dilation int        `json:"dilation"` // wall: real time over emulated time; virtual: 0
	Emulated units.Time `json:"emulated"` // time since the start
	Events   uint64     `json:"events"`
	Trouble  string     `json:"trouble,omitempty"` // why the machine cannot keep up at the moment

	Accounts status.Accounts `json:"accounts"`
	Ports    []status.Port   `json:"ports"`              // in the order of the plan
	Switches []status.Switch `json:"switches,omitempty"` // all that are not routers
	NICs     []status.NIC    `json:"nics,omitempty"`
	Timing   Timing          `json:"timing"`

	CPUTime       units.Time `json:"cpu_time"`        // of the whole process since the start, over all cores; real time
	EngineCPUTime units.Time `json:"engine_cpu_time"` // of the engines' threads
}
