package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/nodeclock"
)

// clocks resolves how exact the clocks of nodes are: those of a node precede those of its kind, which
// precede those of the lab.
type clocks struct {
	*base
	file   *labfile.Lab
	preset string // where the file says nothing
}

// resolveClocks adds the clocks to the plan.
func (v *clocks) resolveClocks() {
	for i := range v.plan.Nodes {
		n, own := &v.plan.Nodes[i], v.nodeFileOf(i).Clock
		f := own.MergeOver(v.Reader, v.kindClock(n).MergeOver(v.Reader, v.file.Clock))
		n.Clock = v.clockOf(n, f)
	}
}

// kindClock returns the clock of a node's kind; nil if the file has none.
func (v *clocks) kindClock(n *plan.Node) *labfile.Clock {
	kinds := &v.file.Topology.Kinds
	switch kindOf(n) {
	case labfile.SwitchNode:
		return kinds.Switch.Clock
	case labfile.VMNode:
		return kinds.VM.Clock
	}
	return kinds.Host.Clock
}

// clockOf returns the clock of a node with settings in the file, which may be nil.
func (v *clocks) clockOf(n *plan.Node, f *labfile.Clock) (c nodeclock.Settings) {
	preset := v.preset
	if f != nil && f.Preset != "" {
		preset = f.Preset
	}
	if preset == labfile.RealClock {
		c = nodeclock.Settings{Error: nodeclock.DrawError(v.plan.Seed, n.Name, nodeclock.Real.Error), Jitter: nodeclock.Real.Jitter}
	}
	if f != nil {
		setFrom((*labfile.PPM)(&c.Error), f.PPM)
		setFrom((*labfile.Jitter)(&c.Jitter), f.Jitter)
	}
	return c
}
