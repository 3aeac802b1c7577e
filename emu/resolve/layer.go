package resolve

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// layers is the seam for layers above NICs.
type layers struct{}

// layerFile is the value of the key layer.
type layerFile = systemFile[layers]

func (layers) oneOf() string   { return nicemu.Layers.OneOf() }
func (layers) example() string { return "layer: rogue" }
func (layers) names() []string { return nicemu.Layers.Names() }
func (layers) optional() bool  { return true }

func (layers) find(name string) (system, error) {
	k, err := nicemu.Layers.Find(name)
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

// layer resolves the layer above a host's NIC for the rate of its first link.
func (v *resolver) layer(n *plan.Node, f *layerFile, place any) {
	if f == nil || f.name == "" {
		return
	}
	k, err := nicemu.Layers.Find(f.name)
	if err != nil {
		return // reported already
	}
	line, preset := v.rateOf(&n.Ports[0]), f.presetOf()
	settings := k.Settings(preset, line)
	if f.values != nil {
		overlay(v.Reader, settings, f.values)
	}
	n.NIC.Layer = nicemu.LayerChoice{Name: f.name, Preset: preset, Settings: settings}
	reportSystem(v.Reader, f.name, settings, settings.Validate(line), f.preset, f, place)
}
