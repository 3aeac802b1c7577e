package resolve

import (
	"io"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/flowfile"
)

func (e *patternEntry) flowList(f *labfile.FlowList) maker {
	hosts := e.findHosts(f.Hosts, &f.Hosts, 2)
	file, read := f.HPCC, flowfile.ReadHPCC
	if f.Htsim != nil {
		file, read = f.Htsim, flowfile.ReadHtsim
	}
	if (f.HPCC == nil) == (f.Htsim == nil) {
		e.ReportFault(e.FirstSet(f.Htsim, e.place), "write hpcc: or htsim: with the name of the file", "exactly one of hpcc and htsim is required")
		return nil
	}
	return e.resolveList(f, hosts, file, read)
}

// resolveList reads the file and replaces its host numbers by hosts.
func (e *patternEntry) resolveList(f *labfile.FlowList, hosts []int, file *labfile.TextFile, read func(io.Reader) (flowfile.File, error)) maker {
	name, text, ok := file.Read(e.Reader, "flow-list")
	if !ok {
		return nil
	}
	flows, err := read(strings.NewReader(text))
	if err != nil {
		e.ReportFault(file, "", "%s: %v", name, err)
		return nil
	}
	if flows.Nodes > len(hosts) {
		e.ReportFault(e.FirstSet(&f.Hosts, file), "give the lab more hosts, or name them all in hosts:", "%s is for %d hosts, but there are %d", name, flows.Nodes, len(hosts))
		return nil
	}
	l := flows.FlowList(hosts)
	setFrom(&l.Offset, f.Offset)
	e.naming = name + ": "
	return l
}
