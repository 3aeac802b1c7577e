package resolve

import (
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/pattern"
)

// resolveTCPPair resolves TCP flows between named hosts: a list of flows, one for each pair, that
// start at one time.
func (e *patternEntry) resolveTCPPair(f *labfile.TCPPair) maker {
	e.checkTime(&f.At, "at", maxTime)
	if f.Size == 0 {
		e.ReportFault(&f.Size, "write for example size: 10MB", "size must be above 0")
	}
	from, ok1 := e.plainHosts(f.From, &f.From)
	to, ok2 := e.plainHosts(f.To, &f.To)
	if !ok1 || !ok2 {
		return nil
	}
	var l pattern.List
	number := func(end hostEnd) int {
		i := slices.Index(l.Hosts, end.host)
		if i < 0 {
			i = len(l.Hosts)
			l.Hosts = append(l.Hosts, end.host)
		}
		return i
	}
	for _, p := range e.pairHosts(from, to, &f.From, &f.To) {
		l.Flows = append(l.Flows, pattern.Listed{From: number(p.from), To: number(p.to), Size: f.Size, At: f.At})
	}
	return l
}

// plainHosts is ends without interfaces: the routes of the hosts choose those of TCP flows.
func (e *patternEntry) plainHosts(names []string, place any) (all []hostEnd, ok bool) {
	hosts, ok := e.traffic.findHosts(names, place, false)
	for _, h := range hosts {
		all = append(all, hostEnd{host: h})
	}
	return all, ok
}

// defaultTCPName returns the name of an entry that has none: that of its only pair of hosts, else tcp.
func defaultTCPName(f *labfile.TCPPair) string {
	if len(f.From) == 1 && len(f.To) == 1 && !strings.ContainsAny(f.From[0]+f.To[0], wildcards) {
		return f.From[0] + "-" + f.To[0]
	}
	return "tcp"
}
