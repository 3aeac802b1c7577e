package resolve

import (
	"io"
	"strings"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/flowfile"
)

// flowListFile is flows listed in a file of another simulator.
type flowListFile struct {
	patternFile `yaml:",inline"`
	HPCC        *textFile                  `yaml:"hpcc,omitempty" jsonschema_description:"flow file of HPCC's simulator"`
	Htsim       *textFile                  `yaml:"htsim,omitempty" jsonschema_description:"connection matrix of htsim, with its triggers"`
	Hosts       yamlfile.OneOrMore[string] `yaml:"hosts,omitempty" jsonschema_description:"hosts that the file's numbers refer to, from 0, with * and ? as wildcards; default all hosts in the lab's order, by rdma all with a NIC"`
	Offset      *units.Time                `yaml:"offset,omitempty" jsonschema_description:"time added to the file's times; may be negative; default 0"`
}

func (f *flowListFile) resolve(e *patternEntry) maker {
	hosts := e.hosts(f.Hosts, &f.Hosts, 2)
	file, read := f.HPCC, flowfile.ReadHPCC
	if f.Htsim != nil {
		file, read = f.Htsim, flowfile.ReadHtsim
	}
	if (f.HPCC == nil) == (f.Htsim == nil) {
		e.Fail(e.Some(f.Htsim, e.place), "write hpcc: or htsim: with the name of the file", "exactly one of hpcc and htsim is required")
		return nil
	}
	return f.read(e, hosts, file, read)
}

// read reads the file and replaces its host numbers by hosts.
func (f *flowListFile) read(e *patternEntry, hosts []int, file *textFile, read func(io.Reader) (flowfile.File, error)) maker {
	name, text, ok := e.text(file, "flow-list")
	if !ok {
		return nil
	}
	flows, err := read(strings.NewReader(text))
	if err != nil {
		e.Fail(file, "", "%s: %v", name, err)
		return nil
	}
	if flows.Nodes > len(hosts) {
		e.Fail(e.Some(&f.Hosts, file), "give the lab more hosts, or name them all in hosts:", "%s is for %d hosts, but there are %d", name, flows.Nodes, len(hosts))
		return nil
	}
	l := flows.List(hosts)
	set(&l.Offset, f.Offset)
	e.naming = name + ": "
	return l
}
