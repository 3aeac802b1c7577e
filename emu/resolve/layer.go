package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
)

// layer resolves the layer above a host's NIC for the rate of its first link.
func (v *nics) layer(n *plan.Node, f *labfile.Layer, place any) {
	if f == nil || f.Name == "" {
		return
	}
	k, err := nicemu.Layers.Find(f.Name)
	if err != nil {
		return // reported already
	}
	line, preset := v.rateOf(&n.Ports[0]), f.PresetOf()
	settings := k.Settings(preset, line)
	if f.Values != nil {
		labfile.Overlay(v.Reader, settings, f.Values)
	}
	n.NIC.Layer = nicemu.LayerChoice{Name: f.Name, Preset: preset, Settings: settings}
	labfile.ReportSettings(v.Reader, f.Name, settings, settings.Validate(line), f.Preset, f, place)
}
