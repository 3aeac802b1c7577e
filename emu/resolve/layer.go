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
	f.CopySettings(v.Reader, settings)
	n.NIC.Layer = nicemu.LayerChoice{Name: f.Name, Preset: preset, Settings: settings}
	f.Report(v.Reader, settings, settings.Validate(line), place)
}
