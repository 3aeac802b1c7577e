package resolve

import (
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// burstsFile configures bursts of flows with silence between them.
type burstsFile struct {
	patternFile `yaml:",inline"`
	Hosts       yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that send, with * and ? as wildcards; default all, by rdma all with a NIC"`
	To          *destinationsForm          `yaml:"to,omitempty" jsonschema_description:"receivers: random draws another of hosts for each burst, permutation draws one for the whole run; default random"`
	Sizes       sizesForm                  `yaml:"sizes" jsonschema_description:"sizes of flows: a name such as websearch, a size, or a distribution"`
	Burst       *amount                    `yaml:"burst,omitempty" jsonschema_description:"number of flows in a burst, one after the other"`
	On          *units.Time                `yaml:"on,omitempty" jsonschema_description:"in place of burst: mean duration of a burst"`
	Off         units.Time                 `yaml:"off" jsonschema_description:"mean time of silence before a burst"`
	Phases      *lawForm                   `yaml:"phases,omitempty" jsonschema_description:"distribution of on and off; default exponential"`
	spanFile    `yaml:",inline"`
}

func (f *burstsFile) resolve(e *patternEntry) maker {
	o := pattern.OnOff{Stream: e.stream, Sizes: e.sizes(&f.Sizes), Phases: e.law(f.Phases), Off: f.Off}
	o.Hosts = e.hosts(f.Hosts, &f.Hosts, 1)
	o.To = e.destinations(f.To, o.Hosts)
	set((*amount)(&o.Burst), f.Burst)
	set(&o.On, f.On)
	o.Start, o.Stop = e.span(&f.spanFile)
	e.ends(f.Stop != nil, "stop:")
	e.checkTime(&f.Off, "off", maxTime)
	e.checkTime(f.On, "on", maxTime)
	switch {
	case (f.Burst == nil) == (f.On == nil):
		e.Fail(e.Some(f.On, e.place), "write burst: with a number of flows, or on: with a time", "exactly one of burst and on is required")
	case f.On != nil && *f.On == 0:
		e.Fail(f.On, "write for example on: 1ms", "on must be above 0")
	}
	return o
}
