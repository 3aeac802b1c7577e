package resolve

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// recoveries is the seam for loss recoveries.
type recoveries struct{}

// recoveryFile is the value of the key recovery.
type recoveryFile = systemFile[recoveries]

func (recoveries) oneOf() string   { return transport.Recoveries.OneOf() }
func (recoveries) example() string { return "recovery: " + transport.DefaultRecovery }
func (recoveries) names() []string { return transport.Recoveries.Names() }
func (recoveries) optional() bool  { return false }

func (recoveries) find(name string) (system, error) {
	k, err := transport.Recoveries.Find(name)
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

// recovery resolves the loss recovery of a host's NIC for the rate of its first link.
func (v *resolver) recovery(n *plan.Node, f *recoveryFile, place any) {
	if f == nil {
		f = &recoveryFile{}
	}
	if f.name == "" {
		f.name = transport.DefaultRecovery
	}
	k, err := transport.Recoveries.Find(f.name)
	if err != nil {
		return // reported already
	}
	line, preset := v.rateOf(&n.Ports[0]), f.presetOf()
	settings := k.Settings(preset, line)
	if f.values != nil {
		overlay(v.Reader, settings, f.values)
	}
	n.NIC.Recovery = nicemu.Recovery{Name: f.name, Preset: preset, Settings: settings}
	reportSystem(v.Reader, f.name, settings, settings.Validate(line), f.preset, f, place)
}
