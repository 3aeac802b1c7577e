package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
)

// resolveLayer resolves the layer above a host's NIC for the rate of its first link.
func (v *nics) resolveLayer(n *plan.Node, f *labfile.Layer, place any) {
	if f == nil || f.Name == "" {
		return
	}
	k, err := nicemu.Layers.Find(f.Name)
	if err != nil {
		return // reported already
	}
	line := v.rateOf(&n.Ports[0])
	n.NIC.Layer = choose(v.Reader, f, f.Name, k.Settings(f.PresetOf(), line))
	f.ReportError(v.Reader, n.NIC.Layer.Settings, n.NIC.Layer.Settings.Validate(line), place)
}
