package spec

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/series"
)

// DefaultSeries is how often queues are sampled by default.
const DefaultSeries = units.Millisecond

// maxPatterns bounds what is looked for among up to 200000 ports.
const maxPatterns = 100

// Series is what weft sim and weft up sample when they are told to.
type Series struct {
	Every units.Time // emulated; in the wall clock it may be more than can be had
	Ports []End      // in the order of the plan, at least one
}

type seriesFile struct {
	Every *units.Time       `yaml:"every,omitempty" jsonschema_description:"emulated time between two samples, at least 1us, under the wall clock 100us; default 1ms"`
	Ports oneOrMore[string] `yaml:"ports,omitempty" jsonschema_description:"ports, with * and ? for any letters; default all ports of switches"`
}

func (seriesFile) noun() string { return "series" }

// series resolves what is to be sampled.
func (v *resolver) series() {
	file := v.lab.Series
	if file == nil {
		return
	}
	s := &Series{Every: DefaultSeries}
	set(&s.Every, file.Every)
	if s.Every < series.MinVirtual || s.Every > series.MaxEvery {
		v.fail(file.Every, "", "every %v is outside %v to %v", s.Every, series.MinVirtual, series.MaxEvery)
	}
	if n := len(file.Ports); n > maxPatterns {
		v.fail(&file.Ports, `* stands for many ports: write for example "leaf*:*"`, "%d patterns, more than %d", n, maxPatterns)
		return
	}
	for i := range file.Ports {
		if _, err := v.plan.match(file.Ports[i]); err != nil {
			v.fail(&file.Ports[i], err.hint, "%s", err.msg)
		}
	}
	if v.err() != nil {
		return
	}
	var err error
	if s.Ports, err = v.plan.MatchPorts(file.Ports); err != nil {
		v.fail(file, "", "%v", err)
	}
	v.plan.Series = s
}

// MatchPorts gives the ports that any of the patterns matches, in the order of
// the plan: names such as "s1:3" in which * stands for any letters, ? for one,
// and [a-c] for one of several. Without patterns it gives every port of a
// switch. A pattern that matches nothing is an error.
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
		return nil, errors.New("there is no port of a switch to sample: name ports of hosts, such as h1:eth0")
	}
	return all, nil
}

// match gives the ports that one pattern matches, at least one.
func (p *Plan) match(pattern string) ([]End, *nameError) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		e, err := p.endpoint(pattern)
		return []End{e}, err
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, &nameError{fmt.Sprintf("%q is not a pattern", pattern), "a [ needs its ]: write for example leaf[12]:*"}
	}
	if !strings.Contains(pattern, ":") {
		return nil, &nameError{fmt.Sprintf("%q does not match a port", pattern), "a port is node:port: write " + pattern + ":*"}
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
		return nil, &nameError{fmt.Sprintf("no port matches %q", pattern), "the nodes are " + listSome(p.nodeNames())}
	}
	return ends, nil
}

// Suggest makes the hint for a name that is not among known: the nearest one,
// if any is near, and the list of them behind intro.
func Suggest(name, intro string, known []string) string { return suggest(name, intro, known) }

// listSome lists names, not all where they are many.
func listSome(names []string) string {
	if more := len(names) - suggestAtMost; more > 0 {
		return strings.Join(names[:suggestAtMost], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
