package resolve

import (
	"math"
	"reflect"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// edges resolves the edge services of hosts.
type edges struct {
	controls
	kinds *labfile.Kinds
}

// resolveEdges gives hosts their edge services.
func (v *edges) resolveEdges() {
	kinds := v.kinds
	for i := range v.plan.Nodes {
		n, own := &v.plan.Nodes[i], v.nodeFileOf(i).Edge
		if n.Kind != plan.Host {
			continue
		}
		kind := kinds.Host.Edge
		if n.VM != nil {
			kind = kinds.VM.Edge
		}
		f := own.JoinChoice(v.Reader, kind)
		if f == nil || f.Name == "" {
			continue
		}
		if n.Ports[0].Link < 0 {
			if own != nil {
				v.ReportFault(own, "join it to a switch under links", "%s of %s has no effect: the host has no link", f.Name, n.Name)
			}
			continue
		}
		n.Edge = v.resolveEdge(n, f, v.FirstSet(own, kind))
	}
}

// resolveEdge resolves the edge service of a host for the rate of its first link.
func (v *edges) resolveEdge(n *plan.Node, f *labfile.Edge, place any) edge.Choice {
	line, slowest := v.settingsOf(&n.Ports[0], 0).Rate, units.Rate(math.MaxInt64)
	for _, p := range n.Ports {
		if rate := v.settingsOf(&p, 0).Rate; rate > 0 {
			slowest = min(slowest, rate)
		}
	}
	if slowest == math.MaxInt64 {
		slowest = 0
	}
	service := choose(v.Reader, f, f.Name, edge.Services.Kind(f.Name).Settings(f.PresetOf(), line))
	before := v.Faults()
	for _, c := range controlsIn(service.Settings) {
		*c = v.resolveControl(n, labfile.ControlOf(v.Reader, c), place)
	}
	if v.Faults() == before {
		f.ReportError(v.Reader, service.Settings, service.Settings.Validate(slowest), place)
	}
	return service
}

// controlsIn returns the fields of settings that are rate controls.
func controlsIn(settings any) (all []*cc.Choice) {
	v := reflect.ValueOf(settings).Elem()
	for _, f := range yamlfile.FieldsOf(v.Type()) {
		if c, ok := v.FieldByIndex(f.Index).Addr().Interface().(*cc.Choice); ok {
			all = append(all, c)
		}
	}
	return all
}
