package plan

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/sim/units"
)

// DefaultSeries is how often queues are sampled by default.
const DefaultSeries = units.Millisecond

// Series is what weft sim and weft up sample if asked to.
type Series struct {
	Every units.Time // emulated; the wall clock may not achieve it
	Ports []End      // in the order of the plan, at least one
}

// MatchPorts returns the ports that any of the patterns matches, in the order
// of the plan. Patterns are names such as "s1:3" in which * stands for any
// characters, ? for one, and [a-c] for one of several. Without patterns it
// returns every port of a switch. A pattern that matches nothing is an error.
func (p *Plan) MatchPorts(patterns []string) ([]End, error) {
	found := map[End]bool{}
	for _, pattern := range patterns {
		ends, err := p.match(pattern)
		if err != nil {
			return nil, err
		}
		for _, e := range ends {
			found[e] = true
		}
	}
	var all []End
	for n := range p.Nodes {
		for i := range p.Nodes[n].Ports {
			if e := (End{n, i}); found[e] || len(patterns) == 0 && p.Nodes[n].Kind == Switch {
				all = append(all, e)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no switch port to sample: name ports of hosts, such as h1:eth0")
	}
	return all, nil
}

// match returns the ports that one pattern matches, at least one.
func (p *Plan) match(pattern string) ([]End, *NameError) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		e, err := p.endpoint(pattern)
		return []End{e}, err
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, &NameError{fmt.Sprintf("%q is not a pattern", pattern), "a [ needs its ]: write for example leaf[12]:*"}
	}
	if !strings.Contains(pattern, ":") {
		return nil, &NameError{fmt.Sprintf("%q does not match a port", pattern), "a port is node:port: write " + pattern + ":*"}
	}
	var ends []End
	for n := range p.Nodes {
		for i := range p.Nodes[n].Ports {
			if ok, _ := path.Match(pattern, p.PortName(n, i)); ok {
				ends = append(ends, End{n, i})
			}
		}
	}
	if len(ends) == 0 {
		return nil, &NameError{fmt.Sprintf("no port matches %q", pattern), "the nodes are " + suggest.List(p.NodeNames())}
	}
	return ends, nil
}
