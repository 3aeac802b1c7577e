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
	f.CopySettings(v.Reader, settings)
	n.NIC.Recovery = nicemu.Recovery{Name: f.Name, Preset: preset, Settings: settings}
	f.Report(v.Reader, settings, settings.Validate(line), place)
}
