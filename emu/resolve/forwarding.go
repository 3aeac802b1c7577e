package resolve

import (
	"cmp"
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/forward"
)

// resolveForwarding resolves how a switch chooses among next hops.
func (v *nodes) resolveForwarding(n *plan.Node, file *labfile.Node) {
	f := cmp.Or(file.Forwarding, v.kinds.Switch.Forwarding)
	name := forward.Default
	if f != nil && f.Name != "" {
		name = f.Name
	}
	n.Forwarding = registry.Choice[forward.Settings]{Name: name, Settings: forward.Kinds.Kind(name).Settings()}
	if f != nil {
		f.CopySettings(v.Reader, n.Forwarding.Settings)
	}
}

// resolveReroute resolves when switches notice the state of links.
func resolveReroute(v *base, f *labfile.Reroute) {
	v.plan.Reroute = units.Never
	if f == nil {
		return
	}
	if f.Never {
		return
	}
	v.plan.Reroute = f.After
	v.checkTime(&f.After, "after", maxTime)
	if !slices.ContainsFunc(v.plan.Nodes, func(n plan.Node) bool { return n.Kind == plan.Switch }) {
		v.ReportFault(f, "", "reroute has no effect: the lab has no switch")
	}
}
