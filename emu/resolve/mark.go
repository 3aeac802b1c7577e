package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// resolveMarking resolves the congestion point of a queue that feeds a link with this rate.
func (v *qos) resolveMarking(m *labfile.Mark, rate units.Rate) congestion.Choice {
	if m == nil || m.Name == "" {
		return congestion.Choice{}
	}
	return choose(v.Reader, m, m.Name, congestion.Points.Kind(m.Name).Settings(m.PresetOf(), rate))
}

// atHosts reports whether a congestion point may be used at the queue of a host.
func atHosts(m *labfile.Mark) bool {
	if m == nil {
		return false
	}
	k, err := congestion.Points.Find(m.Name)
	return err == nil && k.AtHosts
}

// checkMark reports a congestion point that cannot be used at a queue of at most limit
// bytes; 0 means no limit.
func (v *qos) checkMark(n *plan.Node, c congestion.Choice, limit units.Bytes, place *labfile.Mark) {
	if c.Settings == nil {
		return
	}
	if n.Kind == plan.Host && !atHosts(place) {
		v.ReportFault(place, "mark at the switch that the host's link leads to", "%s cannot be used at the queue of a host", c.Name)
		return
	}
	labfile.ReportSettings(v.Reader, c.Name, c.Settings, c.Settings.Validate(limit), place.Preset, place)
}

// checkRoutedMarks reports congestion points that cannot be used at routers.
func (v *qos) checkRoutedMarks() {
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if n.Router == nil {
			continue
		}
		for p := range n.Ports {
			place := v.FirstSet(v.queues[plan.End{Node: i, Port: p}].Mark, v.files[i])
			v.checkRoutedMark(n, n.Ports[p].Queue.Mark, place)
			for j := range n.Ports[p].Classes {
				v.checkRoutedMark(n, n.Ports[p].Classes[j].Mark, v.FirstSet(v.qosFiles[i].classes[j].Mark, place))
			}
		}
	}
}

func (v *qos) checkRoutedMark(n *plan.Node, c congestion.Choice, place any) {
	if k, err := congestion.Points.Find(c.Name); err == nil && k.NotRouted != "" {
		v.FailOnce(place, "leave out the addresses of "+n.Name+", or choose another congestion point", "%s, and %s is one", k.NotRouted, n.Name)
	}
}
