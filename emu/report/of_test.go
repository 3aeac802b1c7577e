package report

import (
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// still is a network that stands still.
type still struct{}

func (still) Now() units.Time                { return units.Second }
func (still) Events() uint64                 { return 5 }
func (still) Trace() uint64                  { return 0xabc }
func (still) Accounts() status.Accounts      { return status.Accounts{Entered: 1, Delivered: 1} }
func (still) Status() []status.Port          { return []status.Port{{Name: "s1:1"}} }
func (still) NICs() []status.NIC             { return []status.NIC{{Name: "h1:eth0"}} }
func (still) BusySwitches() []status.Switch  { return []status.Switch{{Name: "s1", Unknown: 6}} }
func (still) Results() []workload.Result     { return []workload.Result{{Flow: "f"}} }
func (still) Outages() []workload.Outage     { return []workload.Outage{{}} }
func (still) PhaseLocks() []status.PhaseLock { return []status.PhaseLock{{}} }
func (still) Deadlocks() []status.Deadlock   { return []status.Deadlock{{}} }
func (still) Transfers() []workload.TransferResult {
	return []workload.TransferResult{{Transfer: "t", Posted: 2, Completed: 1}}
}

// TestOf_HasWhatTheClockHas: the trace only in virtual time, the dilation only in wall-clock
// time, and all else under both.
func TestOf_HasWhatTheClockHas(t *testing.T) {
	p := &plan.Plan{Name: "lab", File: "lab.yaml", Seed: 7, Dilation: 10}
	for _, c := range []struct {
		clock, trace string
		dilation     int
	}{{Virtual, "0000000000000abc", 0}, {Wall, "", 10}} {
		r := Of(c.clock, p, still{}, []status.Moment{{Event: status.LinkDown}})
		if r.Clock != c.clock || r.Trace != c.trace || r.Dilation != c.dilation {
			t.Errorf("clock %s, trace %q, dilation %d", r.Clock, r.Trace, r.Dilation)
		}
		if r.Lab != "lab" || r.File != "lab.yaml" || r.Seed != 7 || r.Emulated != units.Second || r.Events != 5 || !r.Accounts.Balanced() {
			t.Errorf("%+v", r)
		}
		for what, n := range map[string]int{
			"ports": len(r.Ports), "switches": len(r.Switches), "NICs": len(r.NICs), "flows": len(r.Flows), "timeline": len(r.Timeline), "outages": len(r.Outages),
			"deadlocks": len(r.Deadlocks), "transfers": len(r.Transfers), "sums of transfers": r.TransferSums.Transfers,
		} {
			if n != 1 {
				t.Errorf("%d %s", n, what)
			}
		}
	}
}
