package spec

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/series"
)

// maxPatterns bounds what is looked for among up to 200000 ports.
const maxPatterns = 100

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
	s := &plan.Series{Every: plan.DefaultSeries}
	set(&s.Every, file.Every)
	if s.Every < series.MinVirtual || s.Every > series.MaxEvery {
		v.fail(file.Every, "", "every %v is outside %v to %v", s.Every, series.MinVirtual, series.MaxEvery)
	}
	if n := len(file.Ports); n > maxPatterns {
		v.fail(&file.Ports, `* stands for many ports: write for example "leaf*:*"`, "%d patterns, more than %d", n, maxPatterns)
		return
	}
	for i := range file.Ports {
		v.failName(&file.Ports[i], func() error {
			_, err := v.plan.MatchPorts(file.Ports[i : i+1])
			return err
		})
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
