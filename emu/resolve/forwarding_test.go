package resolve

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/forward"
)

// forwardingOf prints how a switch chooses among next hops, and its static
// routes.
func forwardingOf(p *plan.Plan, n *plan.Node) string {
	var b strings.Builder
	if c := n.Forwarding; n.Kind == plan.Switch && c.Name != forward.Default {
		fmt.Fprintf(&b, " forwarding %s", c.Name)
		if s := reflect.ValueOf(c.Settings).Elem(); len(yamlfile.FieldsOf(s.Type())) > 0 {
			fmt.Fprintf(&b, " %+v", s.Interface())
		}
	}
	for _, r := range n.Static {
		fmt.Fprintf(&b, "\n  to %s:", r.To)
		for _, p := range r.Prefixes {
			fmt.Fprintf(&b, " [%v]", p)
		}
		for _, e := range r.Stations {
			fmt.Fprintf(&b, " %s", p.PortName(e.Node, e.Port))
		}
		fmt.Fprint(&b, " via")
		for _, w := range r.Via {
			fmt.Fprintf(&b, " %s*%d", n.Ports[w.Port].Name, w.Weight)
		}
	}
	return b.String()
}

// rerouteOf prints when switches notice the state of links.
func rerouteOf(p *plan.Plan) string {
	if p.Reroute == units.Never {
		return ""
	}
	return fmt.Sprintf(" reroute after %v", p.Reroute)
}
