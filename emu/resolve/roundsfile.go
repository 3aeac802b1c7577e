package resolve

import (
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// flowPermutationFile is consecutive flows from each host to one other.
type flowPermutationFile struct {
	patternFile `yaml:",inline"`
	Hosts       yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that take part, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Stride      *amount                    `yaml:"stride,omitempty" jsonschema_description:"distance from a host to its partner in the list of hosts, which is treated as a ring; default a permutation drawn from the seed"`
	Sizes       sizesForm                  `yaml:"sizes" jsonschema_description:"sizes of flows: a name such as websearch, a size, or a distribution"`
	Count       *amount                    `yaml:"count,omitempty" jsonschema_description:"number of flows of each host, one after the other; default no limit"`
	spanFile    `yaml:",inline"`
}

func (f *flowPermutationFile) resolve(e *patternEntry) maker {
	p := pattern.Permutation{Stream: e.stream, Sizes: e.sizes(&f.Sizes)}
	p.Hosts = e.hosts(f.Hosts, &f.Hosts, 2)
	p.Partners.Stride = e.stride(f.Stride, len(p.Hosts))
	set((*amount)(&p.Flows), f.Count)
	p.Start, p.Stop = e.span(&f.spanFile)
	e.ends(f.Stop != nil || f.Count != nil, "stop: or count:")
	return p
}

// flowAllToAllFile is one flow from each host to every other.
type flowAllToAllFile struct {
	patternFile `yaml:",inline"`
	Hosts       yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that take part, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Sizes       sizesForm                  `yaml:"sizes" jsonschema_description:"sizes of flows: a name such as websearch, a size, or a distribution"`
	Window      *amount                    `yaml:"window,omitempty" jsonschema_description:"maximum number of concurrent flows of a host; default all"`
	Start       units.Time                 `yaml:"start,omitempty" jsonschema_description:"start time; default 0"`
}

func (f *flowAllToAllFile) resolve(e *patternEntry) maker {
	a := pattern.AllToAll{Stream: e.stream, Sizes: e.sizes(&f.Sizes), Start: f.Start}
	a.Hosts = e.hosts(f.Hosts, &f.Hosts, 2)
	set((*amount)(&a.Window), f.Window)
	e.checkTime(&f.Start, "start", maxTime)
	return a
}

// collectiveFile configures collective communication.
type collectiveFile struct {
	patternFile `yaml:",inline"`
	Operation   operation                  `yaml:"operation" jsonschema_description:"operation: all-reduce, reduce-scatter and all-gather on a ring, all-to-all in rounds"`
	Hosts       yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"ranks in the order of the ring, with * and ? as wildcards; default all, by rdma all with a NIC"`
	Size        units.Bytes                `yaml:"size" jsonschema_description:"size of each rank's buffer; at least 1B for each rank"`
	Iterations  *amount                    `yaml:"iterations,omitempty" jsonschema_description:"number of iterations; default no limit"`
	Compute     *units.Time                `yaml:"compute,omitempty" jsonschema_description:"mean time between the end of a rank's iteration and its next one; default 0"`
	Computing   *lawForm                   `yaml:"computing,omitempty" jsonschema_description:"distribution of compute, drawn by each rank; default constant"`
	spanFile    `yaml:",inline"`
}

func (f *collectiveFile) resolve(e *patternEntry) maker {
	c := pattern.Collective{Stream: e.stream, Operation: pattern.Operation(f.Operation), Size: f.Size, Computing: e.law(f.Computing)}
	c.Hosts = e.hosts(f.Hosts, &f.Hosts, 2)
	set((*amount)(&c.Iterations), f.Iterations)
	set(&c.Compute, f.Compute)
	c.Start, c.Stop = e.span(&f.spanFile)
	e.ends(f.Stop != nil || f.Iterations != nil, "iterations: or stop:")
	e.checkTime(f.Compute, "compute", maxTime)
	switch n := units.Bytes(len(c.Hosts)); {
	case f.Size < n:
		e.Fail(&f.Size, fmt.Sprintf("write at least %v", n), "size %v is too small for %d ranks: each chunk needs at least 1B", f.Size, n)
	case f.Computing != nil && f.Compute == nil:
		e.Fail(f.Computing, "write compute: too", "computing is the distribution of compute, and has no effect without it")
	}
	return c
}

// operation is a collective operation.
type operation pattern.Operation

var operationNames = []string{"all-reduce", "reduce-scatter", "all-gather", "all-to-all"}

// UnmarshalText reads one of operationNames.
func (o *operation) UnmarshalText(b []byte) error { return unmarshalName(o, b, operationNames) }

func (operation) Schema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.Enum(operationNames...)
}
