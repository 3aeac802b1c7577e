package resolve

import (
	"math"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// controls resolves rate controls, which NICs, edge services and flows have.
type controls struct{ *base }

// resolveControl resolves a rate control of a host for the rate of its first link. It
// returns the zero Choice if there is none, or if it is invalid.
func (v *controls) resolveControl(n *plan.Node, c *labfile.Control, place any) cc.Choice {
	if c == nil || c.Name == "" {
		return cc.Choice{}
	}
	line, slowest := v.settingsOf(&n.Ports[0], 0).Rate, units.Rate(math.MaxInt64)
	for _, p := range n.Ports {
		rate := v.settingsOf(&p, 0).Rate
		if rate == 0 {
			v.FailOnce(v.FirstSet(c, place), "write rate: for the link, in links, in the generator or in link under kinds",
				"%s needs the rate of the link, and the rate of %s:%s is unlimited", c.Name, n.Name, p.Name)
			return cc.Choice{}
		}
		slowest = min(slowest, rate)
	}
	control := choose(v.Reader, c, c.Name, cc.Methods.Kind(c.Name).Preset(c.PresetOf(), line))
	c.ReportError(v.Reader, control.Settings, control.Settings.Validate(slowest), place)
	return control
}
