package resolve

import (
	"math"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// controls is the seam for rate controls.
type controls struct{}

// controlFile is the value of the key cc.
type controlFile = systemFile[controls]

func (controls) oneOf() string   { return cc.Methods.OneOf() }
func (controls) example() string { return "cc: dcqcn, or cc: {dcqcn: {preset: paper}}" }
func (controls) names() []string { return cc.Methods.Names() }
func (controls) optional() bool  { return true }

func (controls) find(name string) (system, error) {
	m, err := cc.Methods.Find(name)
	if err != nil {
		return system{}, err
	}
	return system{
		summary: m.Summary,
		presets: m.Presets,
		blank:   func() any { return blank(m.Preset(m.Presets[0], units.Gbps)) },
	}, nil
}

// control resolves a rate control of a host for the rate of its first link. It
// returns the zero Choice if there is none, or if it is invalid.
func (v *resolver) control(n *plan.Node, c *controlFile, place any) cc.Choice {
	if c == nil || c.name == "" {
		return cc.Choice{}
	}
	line, slowest := v.settingsOf(&n.Ports[0], 0).Rate, units.Rate(math.MaxInt64)
	for _, p := range n.Ports {
		rate := v.settingsOf(&p, 0).Rate
		if rate == 0 {
			v.FailOnce(v.Some(c, place), "write rate: for the link, in links, in the generator or in link under kinds",
				"%s needs the rate of the link, and the rate of %s:%s is unlimited", c.name, n.Name, p.Name)
			return cc.Choice{}
		}
		slowest = min(slowest, rate)
	}
	m, _ := cc.Methods.Find(c.name)
	preset := c.presetOf()
	settings := m.Preset(preset, line)
	overlay(v.Reader, settings, c.values)
	reportSystem(v.Reader, c.name, settings, settings.Validate(slowest), c.preset, c, place)
	return cc.Choice{Name: c.name, Preset: preset, Settings: settings}
}

// checkUnlimited reports an event that removes the rate limit of a host's link if
// the host's rate controls need to know the rate.
func (v *resolver) checkUnlimited(from plan.End, place any) {
	n := &v.plan.Nodes[from.Node]
	var all []*cc.Choice
	if n.NIC != nil {
		all = append(all, &n.NIC.Control)
	}
	if n.Edge.Settings != nil {
		all = append(all, controlsIn(n.Edge.Settings)...)
	}
	for _, c := range all {
		if c.Settings != nil {
			v.Fail(place, "", "%s needs the rate of the link, and the rate of %s becomes unlimited", c, v.plan.PortName(from.Node, from.Port))
		}
	}
}
