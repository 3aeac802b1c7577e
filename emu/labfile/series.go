package labfile

import (
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// Series says which queues to sample, and how often.
type Series struct {
	Every *units.Time                `yaml:"every,omitempty" jsonschema_description:"emulated time between two samples, at least 1us, or 100us in wall-clock time; default 1ms"`
	Ports yamlfile.OneOrMore[string] `yaml:"ports,omitempty" jsonschema_description:"ports, with * and ? as wildcards; default all ports of switches"`
}

func (Series) Noun() string { return "series" }

// Window says which flows of patterns count.
type Window struct {
	WarmUp *units.Time `yaml:"warm-up,omitempty" jsonschema_description:"time before which new flows do not count; default 0"`
	End    *units.Time `yaml:"end,omitempty" jsonschema_description:"time after which no flow starts; active flows continue; default never"`
	Grace  *units.Time `yaml:"grace,omitempty" jsonschema_description:"how long a run in virtual time may continue after end for active flows; default until all have ended"`
}
