package resolve

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
)

// maker is a pattern that can be built.
type maker interface {
	Make() (pattern.Pattern, error)
}

// patternOf returns the keys that an entry with a pattern of flows shares with others, the
// entry's place and its key; file is nil if the entry has no pattern.
func patternOf(f *labfile.Workload) (file *labfile.Pattern, place any, key string) {
	switch {
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

// pattern resolves the pattern of an entry. After a fault the result is nil or undefined.
func (e *patternEntry) pattern(f *labfile.Workload) maker {
	switch {
	case f.Arrivals != nil:
		return e.arrivals(f.Arrivals)
	case f.Requests != nil:
		return e.requests(f.Requests)
	case f.Bursts != nil:
		return e.bursts(f.Bursts)
	case f.FlowPermutation != nil:
		return e.permutation(f.FlowPermutation)
	case f.FlowAllToAll != nil:
		return e.allToAll(f.FlowAllToAll)
	case f.Collective != nil:
		return e.collective(f.Collective)
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

// patterns resolves the patterns of flows.
func (v *traffic) patterns() {
	// Names in the file take precedence over generated ones.
	for i := range v.file {
		file, _, _ := patternOf(&v.file[i])
		if file == nil || file.Name == nil {
			continue
		}
		name := file.Name
		v.checkName(name, "a pattern's name", *name, maxNodeName)
		if v.names[*name] > 0 {
			v.Fail(name, "every flow, transfer and pattern needs its own", "another flow, transfer or pattern has the name %q", *name)
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
		e.add(&v.file[i])
	}
}

// add resolves the entry and adds it to the plan.
func (e *patternEntry) add(f *labfile.Workload) {
	before := e.Faults()
	m := e.pattern(f)
	if e.Faults() > before {
		return
	}
	p, err := m.Make()
	if err != nil {
		e.Fail(e.place, "", "%s%v", e.naming, err)
		return
	}
	t := plan.Traffic{Name: e.stream.Name, Pattern: p}
	switch {
	case e.rdma:
		t.RDMA = e.byRDMA(p.Hosts())
	case e.file.By.Value.TCP != nil:
		t.TCP = e.byTCP(p.Hosts())
	case e.file.By.Value.NDP != nil:
		t.NDP = e.byNDP(p.Hosts())
	default:
		t.UDP = e.byUDP(p.Hosts())
	}
	if e.Faults() == before {
		e.plan.Traffic = append(e.plan.Traffic, t)
	}
}

// hosts finds the hosts in the list, or all if it is missing, and fails if there are fewer
// than least.
func (e *patternEntry) hosts(list yamlfile.OneOrMore[string], place any, least int) (hosts []int) {
	if e.Place(place) != nil {
		var ok bool
		if hosts, ok = e.traffic.hosts(list, place, e.rdma); !ok {
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
	if len(hosts) < least {
		e.FailOnce(e.Some(place, e.place), "without hosts: all hosts take part, by rdma all with a NIC", "at least %d hosts are needed, not %d", least, len(hosts))
		return nil
	}
	return hosts
}

// span resolves when flows are created; a stop of 0 means none.
func (e *patternEntry) span(f *labfile.Span) (start, stop units.Time) {
	e.checkTime(&f.Start, "start", maxTime)
	e.checkTime(f.Stop, "stop", maxTime)
	if f.Stop != nil && *f.Stop <= f.Start {
		e.Fail(f.Stop, "leave it out to continue until the run or its window ends", "stop %v is not after start %v", *f.Stop, f.Start)
	}
	set(&stop, f.Stop)
	return f.Start, stop
}

// ends checks that something ends the pattern: its own keys or those of the file.
func (e *patternEntry) ends(itself bool, keys string) {
	windowed := e.window != nil && e.window.End != nil
	if !itself && !windowed && e.duration == nil {
		e.Fail(e.place, "write "+keys+" in the entry, or window: {end: ...} or duration: in the file", "flows continue until the run ends, and the run has no end")
	}
}

// law resolves a law of times, and returns the zero Law if the file gives none.
func (e *patternEntry) law(f *labfile.LawForm) (law pattern.Law) {
	var err error
	switch {
	case f == nil:
	case f.Word == "constant":
		return pattern.Constant()
	case f.Word != "":
		return pattern.Poisson()
	case f.Value.Lognormal != nil:
		law, err = pattern.Lognormal(float64(*f.Value.Lognormal))
	default:
		law, err = pattern.Weibull(float64(*f.Value.Weibull))
	}
	if err != nil {
		e.Fail(f, "", "%v", err)
	}
	return law
}

// stride resolves the distance between partners among n hosts; 0 if the file gives none.
func (e *patternEntry) stride(f *labfile.Amount, n int) int {
	if f == nil {
		return 0
	}
	if n > 0 && int(*f) >= n {
		e.Fail(f, "it must be less than the number of hosts", "stride %d is too large for %d hosts", *f, n)
	}
	return int(*f)
}

// destinations resolves where the hosts send; nil if the file does not say.
func (e *patternEntry) destinations(f *labfile.DestinationsForm, hosts []int) pattern.Destinations {
	switch {
	case f != nil && e.Place(&f.Value.Hosts) != nil:
		among := e.hosts(f.Value.Hosts, &f.Value.Hosts, 1)
		if len(among) == 1 && slices.Contains(hosts, among[0]) {
			e.Fail(&f.Value.Hosts, "leave it out of hosts:", "%s cannot send to itself", e.plan.Nodes[among[0]].Name)
		}
		return pattern.AnyOther{Among: among}
	case f != nil && f.Value.Matrix != nil:
		return e.matrix(f.Value.Matrix, hosts)
	case len(hosts) == 1:
		e.Fail(e.Some(f, e.place), "write to: {hosts: ...}, or more hosts", "%s has no other host to send to", e.plan.Nodes[hosts[0]].Name)
	case f == nil || f.Word == "random":
	case f.Word == "permutation":
		return pattern.Partners{}
	default:
		return pattern.Partners{Stride: e.stride(f.Value.Stride, len(hosts))}
	}
	return nil
}

// matrix resolves a traffic matrix among hosts.
func (e *patternEntry) matrix(f *labfile.MatrixForm, hosts []int) pattern.Destinations {
	var rows [][]float64
	if f.File != nil {
		name, text, ok := f.File.Read(e.Reader, "matrix")
		if !ok {
			return nil
		}
		var err error
		if rows, err = readMatrix(text); err != nil {
			e.Fail(f.File, "a line needs a number for each receiving host", "%s: %v", name, err)
			return nil
		}
	}
	for _, r := range f.Value {
		row := make([]float64, len(r))
		for i, x := range r {
			row[i] = float64(x)
		}
		rows = append(rows, row)
	}
	const hint = "write a row for each of hosts, in their order, with a number for each of them"
	if len(rows) != len(hosts) && len(hosts) > 0 {
		e.Fail(f, hint, "the matrix has %d rows for %d hosts", len(rows), len(hosts))
		return nil
	}
	for i, row := range rows {
		switch {
		case len(row) != len(hosts):
			e.Fail(f, hint, "row %d of the matrix has %d numbers for %d hosts", i+1, len(row), len(hosts))
			return nil
		case row[i] != 0:
			e.Fail(f, "write 0 there", "row %d, column %d of the matrix: %s cannot send to itself", i+1, i+1, e.plan.Nodes[hosts[i]].Name)
			return nil
		}
	}
	return pattern.Weights{Matrix: rows}
}

// readMatrix reads lines of numbers separated by blanks or commas. Text after a # is
// skipped.
func readMatrix(text string) (rows [][]float64, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		var row []float64
		for _, field := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' }) {
			x, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %q is not a number", n, field)
			}
			row = append(row, x)
		}
		if row != nil {
			rows = append(rows, row)
		}
	}
	return rows, lines.Err()
}

// firstPort returns a host's first interface with a link and an address.
func (e *patternEntry) firstPort(host int) *plan.Port {
	ports := e.plan.Nodes[host].Ports
	for i := range ports {
		if ports[i].Link >= 0 && len(ports[i].Addresses) > 0 {
			return &ports[i]
		}
	}
	return nil
}

// version chooses the version of IP among hosts, unless the file does.
func (e *patternEntry) version(hosts []int, file *labfile.IPVersion) (ipv6 bool) {
	of := func(ipv6 bool) int {
		return slices.IndexFunc(hosts, func(h int) bool { return !speaks(&e.plan.Nodes[h], ipv6) })
	}
	without4, without6 := of(false), of(true)
	switch {
	case file != nil:
		if without := [2]int{without4, without6}[*file/6]; without >= 0 {
			e.Fail(file, "", "%s has no IPv%d address", e.plan.Nodes[hosts[without]].Name, *file)
		}
		return *file == 6
	case without4 >= 0 && without6 >= 0:
		e.Fail(e.place, "", "%s has no IPv4 address and %s no IPv6 address: the hosts have no IP version in common",
			e.plan.Nodes[hosts[without4]].Name, e.plan.Nodes[hosts[without6]].Name)
	}
	return without4 >= 0
}

// checkPaths checks that each host reaches the next one, and the next one reaches it.
func (e *patternEntry) checkPaths(hosts []int, ipv6 bool) {
	for i, from := range hosts {
		to := hosts[(i+1)%len(hosts)]
		for _, w := range []hostPair{{from, to}, {to, from}} {
			if _, _, ok := e.path(w.from, w.to, ipv6); !ok && from != to {
				e.FailOnce(e.place, e.pathHint(), "there is no path from %s to %s", e.plan.Nodes[w.from].Name, e.plan.Nodes[w.to].Name)
				return
			}
		}
	}
}

// byRDMA resolves the settings of flows that use RDMA.
func (e *patternEntry) byRDMA(hosts []int) *carrier.RDMA {
	f, place := &labfile.RDMAFlows{}, e.place
	if by := e.file.By; by != nil {
		f, place = by.Value.RDMA, by
	}
	c := &carrier.RDMA{Verb: f.Verb, IPv6: e.version(hosts, f.IP)}
	if f.Verb == workload.Read {
		e.Fail(&f.Verb, "for READs, use read: in the workload", "the flows of a pattern must be write or send: the host with the data sends")
	}
	set(&c.Chunk, f.Chunk)
	if c.Chunk > maxMessage || f.Chunk != nil && *f.Chunk == 0 {
		e.Fail(f.Chunk, fmt.Sprintf("it can be 1B to %dB", maxMessage), "chunk %dB is out of range", *f.Chunk)
	}
	set((*labfile.PathMTU)(&c.MTU), f.MTU)
	set((*labfile.DSCP)(&c.DSCP), f.DSCP)
	for i, h := range hosts {
		n := &e.plan.Nodes[h]
		if !e.hasNIC(h, place) {
			return c
		}
		switch {
		case f.MTU != nil && c.MTU > n.NIC.MTU:
			e.FailOnce(f.MTU, "", "the NIC of %s has an mtu of %d", n.Name, n.NIC.MTU.Bytes())
		case f.MTU == nil && (i == 0 || c.MTU > n.NIC.MTU):
			c.MTU = n.NIC.MTU
		}
		if f.DSCP != nil {
			continue
		}
		if i > 0 && n.NIC.DSCP != c.DSCP {
			e.FailOnce(place, "write by: {rdma: {dscp: ...}}", "the NICs of %s and %s have different dscps, %d and %d", e.plan.Nodes[hosts[0]].Name, n.Name, c.DSCP, n.NIC.DSCP)
		}
		c.DSCP = n.NIC.DSCP
	}
	for _, h := range hosts {
		if p := e.firstPort(h); p != nil && e.settingsOf(p, 0).Rate == 0 {
			e.FailOnce(place, "give links a rate: under kinds, in the generator or in the link", "the link of %s has no rate, and a NIC needs it to pace flows", e.plan.Nodes[h].Name)
		}
	}
	e.checkPaths(hosts, c.IPv6)
	return c
}

// byUDP resolves the settings of flows that use UDP.
func (e *patternEntry) byUDP(hosts []int) *carrier.UDP {
	f := e.file.By.Value.UDP
	c := &carrier.UDP{ECT: f.ECT, DSCP: uint8(f.DSCP), IPv6: e.version(hosts, f.IP)}
	set(&c.Rate, f.Rate)
	if f.Rate != nil && *f.Rate == 0 {
		e.Fail(f.Rate, "leave it out for the rate of the sender's link", "rate must not be unlimited")
	}
	over := overIPv4
	if c.IPv6 {
		over = overIPv6
	}
	c.Size = maxDatagram
	for _, h := range hosts {
		p := e.firstPort(h)
		if p == nil {
			continue
		}
		c.Size = min(c.Size, min(e.settingsOf(p, 0).MTU, e.settingsOf(p, 1).MTU)-over-e.plan.Nodes[h].EdgeOverhead(c.IPv6))
		if c.Rate == 0 && e.settingsOf(p, 0).Rate == 0 {
			e.FailOnce(e.file.By, "write by: {udp: {rate: ...}}", "the link of %s has no rate, and neither have the flows", e.plan.Nodes[h].Name)
		}
	}
	if f.Size != nil {
		if *f.Size == 0 || *f.Size > c.Size {
			e.Fail(f.Size, fmt.Sprintf("the largest payload is %v", c.Size), "size %v is out of range for an mtu of %v", *f.Size, c.Size+over)
		}
		c.Size = *f.Size
	}
	e.checkPaths(hosts, c.IPv6)
	return c
}

// maxDatagram is the longest UDP payload over IPv4.
const maxDatagram units.Bytes = 65507
