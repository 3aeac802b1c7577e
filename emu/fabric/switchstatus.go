package fabric

import (
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/mactable"
)

// SwitchStatus returns what each plain switch has learned of Ethernet addresses, in the order
// of the plan.
func (f *Fabric) SwitchStatus() (all []status.Switch) {
	for n, sw := range f.Switches {
		if sw != nil && f.Plan.Nodes[n].Router == nil {
			all = append(all, f.SwitchStatusOf(n))
		}
	}
	return all
}

// SwitchStatusOf returns what the plain switch at a node has learned.
func (f *Fabric) SwitchStatusOf(node int) status.Switch {
	sw := f.Switches[node]
	s := status.Switch{Name: sw.Name, Unknown: sw.Unknown()}
	if t := sw.MACTable(); t != nil {
		s.Entries, s.Limit = t.Len(f.nowAt(node)), t.Config().Size
		c := t.Counters()
		s.Learned, s.Moved, s.Aged, s.Flushed, s.Full = c.Learned, c.Moved, c.Aged, c.Flushed, c.Full
	}
	return s
}

// BusySwitches returns the elements of SwitchStatus that are not idle.
func (f *Fabric) BusySwitches() []status.Switch {
	return slices.DeleteFunc(f.SwitchStatus(), func(s status.Switch) bool { return s.Idle() })
}

// MACs returns the addresses that a switch has learned, the newest first, and the time now at
// the switch.
func (f *Fabric) MACs(node int) (entries []mactable.Entry, now units.Time) {
	now = f.nowAt(node)
	if t := f.Switches[node].MACTable(); t != nil {
		entries = t.Entries(now)
	}
	return entries, now
}

// MACPlace returns the port of the lab file behind which a learned address is.
func (f *Fabric) MACPlace(e mactable.Entry) plan.End { return f.topology.Endpoints[e.At] }
