package spec

import (
	"math"
	"reflect"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// edges is the seam of edge services.
type edges struct{}

// edgeFile is what stands behind edge.
type edgeFile = systemFile[edges]

func (edges) oneOf() string   { return edge.Services.OneOf() }
func (edges) example() string { return "edge: {limit: {rate: 100Mbps}}" }
func (edges) optional() bool  { return true }
func (edges) names() []string { return edge.Services.Names() }

func (edges) find(name string) (system, error) {
	k, err := edge.Services.Find(name)
	if err != nil {
		return system{}, err
	}
	first := ""
	if k.Presets != nil {
		first = k.Presets[0]
	}
	return system{
		summary: k.Summary,
		presets: k.Presets,
		blank:   func() any { return blank(k.Settings(first, units.Gbps)) },
	}, nil
}

// edges gives hosts their edge services.
func (v *resolver) edges() {
	kinds := &v.lab.Topology.Kinds
	for i := range v.plan.Nodes {
		n, said := &v.plan.Nodes[i], v.said(i).Edge
		if n.Kind != plan.Host {
			continue
		}
		kind := kinds.Host.Edge
		if n.VM != nil {
			kind = kinds.VM.Edge
		}
		f := said.join(v.reader, kind)
		if f == nil || f.name == "" {
			continue
		}
		if n.Ports[0].Link < 0 {
			if said != nil {
				v.fail(said, "join it to a switch under links", "%s of %s has no effect: the host has no link", f.name, n.Name)
			}
			continue
		}
		n.Edge = v.edge(n, f, v.some(said, kind))
	}
}

// edge resolves the edge service of a host, by the rate of its first link.
func (v *resolver) edge(n *plan.Node, f *edgeFile, place any) edge.Chosen {
	line, slowest := v.settingsOf(&n.Ports[0], 0).Rate, units.Rate(math.MaxInt64)
	for _, p := range n.Ports {
		if rate := v.settingsOf(&p, 0).Rate; rate > 0 {
			slowest = min(slowest, rate)
		}
	}
	if slowest == math.MaxInt64 {
		slowest = 0
	}
	k, _ := edge.Services.Find(f.name)
	settings := k.Settings(f.presetOf(), line)
	overlay(v.reader, settings, f.values)
	before := len(v.errs)
	for _, c := range controlsIn(settings) {
		*c = v.control(n, v.inner[c], place)
	}
	if len(v.errs) == before {
		v.report(f.name, settings, settings.Validate(slowest), f.preset, f, place)
	}
	return edge.Chosen{Name: f.name, Preset: f.presetOf(), Settings: settings}
}

// controlsIn gives the fields of settings that are rate controls.
func controlsIn(settings any) (all []*cc.Choice) {
	v := reflect.ValueOf(settings).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if c, ok := v.FieldByIndex(f.index).Addr().Interface().(*cc.Choice); ok {
			all = append(all, c)
		}
	}
	return all
}
