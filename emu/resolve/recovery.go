package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/transport"
)

// recovery resolves the loss recovery of a host's NIC for the rate of its first link.
func (v *nics) recovery(n *plan.Node, f *labfile.Recovery, place any) {
	if f == nil {
		f = &labfile.Recovery{}
	}
	if f.Name == "" {
		f.Name = transport.DefaultRecovery
	}
	k, err := transport.Recoveries.Find(f.Name)
	if err != nil {
		return // reported already
	}
	line, preset := v.rateOf(&n.Ports[0]), f.PresetOf()
	settings := k.Settings(preset, line)
	if f.Values != nil {
		labfile.Overlay(v.Reader, settings, f.Values)
	}
	n.NIC.Recovery = nicemu.Recovery{Name: f.Name, Preset: preset, Settings: settings}
	labfile.ReportSettings(v.Reader, f.Name, settings, settings.Validate(line), f.Preset, f, place)
}
