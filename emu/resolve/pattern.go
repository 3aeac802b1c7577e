package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// maker is a pattern that can be built.
type maker interface {
	Make() (pattern.Pattern, error)
}

// patternOf returns the keys that an entry with a pattern of flows shares with others, the
// entry's place and its key; file is nil if the entry has no pattern.
func patternOf(f *labfile.Workload) (file *labfile.Pattern, place any, key string) {
	switch {
	case f.TCP != nil:
		by := &labfile.CarrierForm{Value: labfile.Carrier{TCP: &f.TCP.TCPFlows}}
		return &labfile.Pattern{Name: f.TCP.Name, By: by}, f.TCP, defaultTCPName(f.TCP)
	case f.Arrivals != nil:
		return &f.Arrivals.Pattern, f.Arrivals, "arrivals"
	case f.Requests != nil:
		return &f.Requests.Pattern, f.Requests, "requests"
	case f.Bursts != nil:
		return &f.Bursts.Pattern, f.Bursts, "bursts"
	case f.FlowPermutation != nil:
		return &f.FlowPermutation.Pattern, f.FlowPermutation, "flow-permutation"
	case f.FlowAllToAll != nil:
		return &f.FlowAllToAll.Pattern, f.FlowAllToAll, "flow-all-to-all"
	case f.Collective != nil:
		return &f.Collective.Pattern, f.Collective, "collective"
	case f.FlowList != nil:
		return &f.FlowList.Pattern, f.FlowList, "flow-list"
	}
	return nil, nil, ""
}

// resolvePattern resolves the pattern of an entry. After a fault the result is nil or undefined.
func (e *patternEntry) resolvePattern(f *labfile.Workload) maker {
	switch {
	case f.Arrivals != nil:
		return e.resolveArrivals(f.Arrivals)
	case f.Requests != nil:
		return e.resolveRequests(f.Requests)
	case f.Bursts != nil:
		return e.resolveBursts(f.Bursts)
	case f.FlowPermutation != nil:
		return e.resolvePermutation(f.FlowPermutation)
	case f.FlowAllToAll != nil:
		return e.allToAll(f.FlowAllToAll)
	case f.Collective != nil:
		return e.resolveCollective(f.Collective)
	case f.TCP != nil:
		return e.resolveTCPPair(f.TCP)
	}
	return e.flowList(f.FlowList)
}

// patternEntry is an entry of the workload whose pattern is being resolved.
type patternEntry struct {
	*traffic
	place  any // the entry
	file   *labfile.Pattern
	stream pattern.Stream
	rdma   bool
	naming string // prefix for errors of Make
}

// resolvePatterns resolves the patterns of flows.
func (v *traffic) resolvePatterns() {
	// Names in the file take precedence over generated ones.
	for i := range v.file {
		file, _, _ := patternOf(&v.file[i])
		if file == nil || file.Name == nil {
			continue
		}
		name := file.Name
		v.checkName(name, "a pattern's name", *name, maxNodeName)
		if v.names[*name] > 0 {
			v.ReportFault(name, "every flow, transfer and pattern needs its own", "another flow, transfer or pattern has the name %q", *name)
		}
		v.names[*name] = 1
	}
	for i := range v.file {
		file, place, key := patternOf(&v.file[i])
		if file == nil {
			continue
		}
		e := patternEntry{traffic: v, place: place, file: file}
		if e.file.Name != nil {
			e.stream.Name = *e.file.Name
		} else {
			e.stream.Name = freeName(v.names, key)
		}
		e.stream.Seed = v.plan.Seed
		e.rdma = e.file.By == nil || e.file.By.Value.RDMA != nil
		e.addPattern(&v.file[i])
	}
}

// carrierPlace returns the place of what carries the flows: by of the entry, or the entry itself.
func (e *patternEntry) carrierPlace() any { return e.FirstSet(e.file.By, e.place) }

// addPattern resolves the entry and adds it to the plan.
func (e *patternEntry) addPattern(f *labfile.Workload) {
	before := e.Faults()
	m := e.resolvePattern(f)
	if e.Faults() > before {
		return
	}
	p, err := m.Make()
	if err != nil {
		e.ReportFault(e.place, "", "%s%v", e.naming, err)
		return
	}
	t := plan.Traffic{Name: e.stream.Name, Pattern: p}
	e.checkConnections(p)
	switch {
	case e.rdma:
		t.RDMA = e.byRDMA(p)
	case e.file.By.Value.TCP != nil:
		t.TCP = e.byTCP(p)
	case e.file.By.Value.NDP != nil:
		t.NDP = e.byNDP(p)
	default:
		t.UDP = e.byUDP(p)
	}
	if e.Faults() == before {
		e.plan.Traffic = append(e.plan.Traffic, t)
	}
}

// findHosts finds the hosts in the list, or all if it is missing, and fails if there are fewer
// than least.
func (e *patternEntry) findHosts(list yamlfile.OneOrMore[string], place any, minHosts int) (hosts []int) {
	if e.Place(place) != nil {
		var ok bool
		if hosts, ok = e.traffic.findHosts(list, place, e.rdma); !ok {
			return nil
		}
	} else {
		for i := range e.plan.Nodes {
			if n := &e.plan.Nodes[i]; n.Kind == plan.Host && (n.NIC != nil || !e.rdma) {
				hosts = append(hosts, i)
			}
		}
		if len(hosts) == 0 && e.rdma {
			e.FailOnce(e.place, "write nic: roce in host under kinds, or by: tcp, or by: ndp, or by: udp", "the flows use RDMA, and no host has a NIC")
			return nil
		}
	}
	if len(hosts) < minHosts {
		e.FailOnce(e.FirstSet(place, e.place), "without hosts: all hosts take part, by rdma all with a NIC", "at least %d hosts are needed, not %d", minHosts, len(hosts))
		return nil
	}
	return hosts
}

// resolveSpan resolves when flows are created; a stop of 0 means none.
func (e *patternEntry) resolveSpan(f *labfile.Span) (start, stop units.Time) {
	e.checkTime(&f.Start, "start", maxTime)
	e.checkTime(f.Stop, "stop", maxTime)
	if f.Stop != nil && *f.Stop <= f.Start {
		e.ReportFault(f.Stop, "leave it out to continue until the run or its window ends", "stop %v is not after start %v", *f.Stop, f.Start)
	}
	setFrom(&stop, f.Stop)
	return f.Start, stop
}

// checkEnd checks that something ends the pattern: its own keys or those of the file.
func (e *patternEntry) checkEnd(itself bool, keys string) {
	windowed := e.window != nil && e.window.End != nil
	if !itself && !windowed && e.duration == nil {
		e.ReportFault(e.place, "write "+keys+" in the entry, or window: {end: ...} or duration: in the file", "flows continue until the run ends, and the run has no end")
	}
}

// resolveLaw resolves a law of times, and returns the zero Law if the file gives none.
func (e *patternEntry) resolveLaw(f *labfile.LawForm) (law pattern.Law) {
	var err error
	switch {
	case f == nil:
	case f.Word == "constant":
		return pattern.ConstantLaw()
	case f.Word != "":
		return pattern.PoissonLaw()
	case f.Value.Lognormal != nil:
		law, err = pattern.LognormalLaw(float64(*f.Value.Lognormal))
	default:
		law, err = pattern.WeibullLaw(float64(*f.Value.Weibull))
	}
	if err != nil {
		e.ReportFault(f, "", "%v", err)
	}
	return law
}
