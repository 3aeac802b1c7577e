package resolve

import (
	"reflect"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// points is the seam for congestion points.
type points struct{}

// markFile is the value of the key mark.
type markFile = systemFile[points]

func (points) oneOf() string   { return congestion.Points.OneOf() }
func (points) example() string { return "mark: {red: {kmin: 100KB, kmax: 400KB, pmax: 1%}}" }
func (points) names() []string { return congestion.Points.Names() }
func (points) optional() bool  { return true }

func (points) find(name string) (system, error) {
	k, err := congestion.Points.Find(name)
	if err != nil {
		return system{}, err
	}
	first := ""
	if k.Presets != nil {
		first = k.Presets[0]
	}
	check := func(preset string, set func(any)) error {
		settings := k.Settings(preset, 0)
		set(settings)
		return settings.Validate(0)
	}
	if k.ByRate {
		check = nil
	}
	return system{
		summary: k.Summary,
		presets: k.Presets,
		blank:   func() any { return blank(k.Settings(first, 0)) },
		check:   check,
	}, nil
}

// blank returns settings of the same type with nothing set.
func blank(settings any) any { return reflect.New(reflect.TypeOf(settings).Elem()).Interface() }

// mark resolves the congestion point of a queue that feeds a link with this rate.
func (v *resolver) mark(m *markFile, rate units.Rate) congestion.Config {
	if m == nil || m.name == "" {
		return congestion.Config{}
	}
	k, _ := congestion.Points.Find(m.name)
	preset := m.presetOf()
	settings := k.Settings(preset, rate)
	overlay(v.Reader, settings, m.values)
	return congestion.Config{Name: m.name, Preset: preset, Settings: settings}
}

// rateOf returns the rate of the link that leaves a port, 0 without a link.
func (v *resolver) rateOf(p *plan.Port) units.Rate {
	if p.Link < 0 {
		return 0
	}
	return v.settingsOf(p, 0).Rate
}

// atHosts reports whether a congestion point may be used at the queue of a host.
func atHosts(m *markFile) bool {
	if m == nil {
		return false
	}
	k, err := congestion.Points.Find(m.name)
	return err == nil && k.AtHosts
}

// checkMark reports a congestion point that cannot be used at a queue of at most limit
// bytes; 0 means no limit.
func (v *resolver) checkMark(n *plan.Node, c congestion.Config, limit units.Bytes, place *markFile) {
	if c.Settings == nil {
		return
	}
	if n.Kind == plan.Host && !atHosts(place) {
		v.Fail(place, "mark at the switch that the host's link leads to", "%s cannot be used at the queue of a host", c.Name)
		return
	}
	reportSystem(v.Reader, c.Name, c.Settings, c.Settings.Validate(limit), place.preset, place)
}

// checkRoutedMarks reports congestion points that cannot be used at routers.
func (v *resolver) checkRoutedMarks() {
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if n.Router == nil {
			continue
		}
		for p := range n.Ports {
			place := v.Some(v.queues[plan.End{Node: i, Port: p}].Mark, v.files[i])
			v.checkRoutedMark(n, n.Ports[p].Queue.Mark, place)
			for j := range n.Ports[p].Classes {
				v.checkRoutedMark(n, n.Ports[p].Classes[j].Mark, v.Some(v.deep[i].classes[j].Mark, place))
			}
		}
	}
}

func (v *resolver) checkRoutedMark(n *plan.Node, c congestion.Config, place any) {
	if k, err := congestion.Points.Find(c.Name); err == nil && k.NotRouted != "" {
		v.FailOnce(place, "leave out the addresses of "+n.Name+", or choose another congestion point", "%s, and %s is one", k.NotRouted, n.Name)
	}
}
