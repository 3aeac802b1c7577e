package resolve

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// Bounds of all parts.
const (
	maxNodeName = 40
	maxTime     = 1_000_000 * units.Second // eleven days
)

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// nameHint describes the names that namePattern and a length allow.
func nameHint(maxLength int) string {
	return fmt.Sprintf("a name is at most %d letters, digits, _ . or -, and begins with a letter or digit", maxLength)
}

// base is what the parts of the resolution share: the plan so far, and what serves to find
// things by name and to locate them in the file.
type base struct {
	*yamlfile.Reader // collects faults, and knows the place of every value
	plan             *plan.Plan

	nodes      map[string]int
	files      []*labfile.Node     // of each node; nil if only a generator names it
	ports      map[string]plan.End // by "node:port"
	linkPlaces []any               // of each link of the plan

	unknownNodes map[string]*plan.NameError // nodes that do not exist
}

func newBase(r *yamlfile.Reader) *base {
	return &base{
		Reader: r, plan: &plan.Plan{File: r.File()},
		nodes: map[string]int{}, ports: map[string]plan.End{}, unknownNodes: map[string]*plan.NameError{},
	}
}

// findEnd finds the port that a value in the file names.
func (v *base) findEnd(name *string) (plan.End, bool) {
	if end, ok := v.ports[*name]; ok {
		return end, true
	}
	v.failName(name, func() error {
		_, _, err := v.plan.Endpoint(*name)
		return err
	})
	return plan.End{}, false
}

// rateOf returns the rate of the link that leaves a port, 0 without a link.
func (v *base) rateOf(p *plan.Port) units.Rate { return rateOf(v.plan, p) }

func rateOf(p *plan.Plan, port *plan.Port) units.Rate {
	if port.Link < 0 {
		return 0
	}
	return p.Links[port.Link].Dir[port.End].Rate
}

func (v *base) checkName(place any, what, name string, maxLength int) bool {
	ok := len(name) <= maxLength && namePattern.MatchString(name)
	if !ok {
		v.ReportFault(place, nameHint(maxLength), "%s cannot be %q", what, name)
	}
	return ok
}

// checkTime checks a time in the file, which may be nil.
func (v *base) checkTime(t *units.Time, what string, maxValue units.Time) {
	if t != nil && (*t < 0 || *t > maxValue) {
		v.ReportFault(t, "", "%s %v is outside 0s to %v", what, *t, maxValue)
	}
}

// addPort adds a port, whose name must be new to the node, and returns its
// index.
func (v *base) addPort(node int, name string) int {
	n := &v.plan.Nodes[node]
	port := len(n.Ports)
	n.Ports = append(n.Ports, plan.Port{Name: name, Link: -1})
	v.ports[n.Name+":"+name] = plan.End{Node: node, Port: port}
	return port
}

// findNode finds the node that the value at place names.
func (v *base) findNode(place any, name string) (int, bool) {
	node, ok := v.nodes[name]
	if !ok {
		v.failName(place, func() error {
			if v.unknownNodes[name] == nil {
				v.unknownNodes[name] = v.plan.NoNode(name)
			}
			return v.unknownNodes[name]
		})
	}
	return node, ok
}

// failName reports a name that does not exist. It makes the message only if it
// will be shown, as a suggestion takes time when there are many names.
func (v *base) failName(place any, say func() error) {
	var bad *plan.NameError
	if !v.HasEnoughFaults() && errors.As(say(), &bad) {
		v.ReportFault(place, bad.Hint, "%s", bad.Msg)
	}
}

// checkPatch reports an error of LinkPatch.Apply at the place of the setting.
func (v *base) checkPatch(err error, place any) {
	var bad *change.SettingError
	if errors.As(err, &bad) {
		if v.Place(bad.Field) != nil {
			place = bad.Field
		}
		v.ReportFault(place, "", "%s", bad.Msg)
	}
}

// nodeFileOf returns what the file says about a node.
func (v *base) nodeFileOf(node int) *labfile.Node {
	if f := v.files[node]; f != nil {
		return f
	}
	return &labfile.Node{}
}

// findPort finds the port of a node that the file has settings for.
func (v *base) findPort(node int, name *string) (int, bool) {
	end, ok := v.ports[v.plan.Nodes[node].Name+":"+*name]
	if !ok {
		v.failName(name, func() error { return v.plan.NoPort(node, *name) })
	}
	return end.Port, ok
}

// settingsOf returns the settings of the direction that leaves a port, or with
// coming = 1 of the direction that enters it.
func (v *base) settingsOf(p *plan.Port, coming int) links.Settings {
	return v.plan.Links[p.Link].Dir[p.End^coming]
}
