package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/transport"
)

// resolveRecovery resolves the loss recovery of a host's NIC for the rate of its first link.
func (v *nics) resolveRecovery(n *plan.Node, f *labfile.Recovery, place any) {
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
	line := v.rateOf(&n.Ports[0])
	n.NIC.Recovery = choose(v.Reader, f, f.Name, k.Settings(f.PresetOf(), line))
	f.ReportError(v.Reader, n.NIC.Recovery.Settings, n.NIC.Recovery.Settings.Validate(line), place)
}
