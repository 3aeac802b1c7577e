package resolve

import (
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

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

// chooseIPVersion chooses the version of IP among hosts, unless the file does.
func (e *patternEntry) chooseIPVersion(hosts []int, file *labfile.IPVersion) (ipv6 bool) {
	of := func(ipv6 bool) int {
		return slices.IndexFunc(hosts, func(h int) bool { return !hasIPVersion(&e.plan.Nodes[h], ipv6) })
	}
	without4, without6 := of(false), of(true)
	switch {
	case file != nil:
		if without := [2]int{without4, without6}[*file/6]; without >= 0 {
			e.ReportFault(file, "", "%s has no IPv%d address", e.plan.Nodes[hosts[without]].Name, *file)
		}
		return *file == 6
	case without4 >= 0 && without6 >= 0:
		e.ReportFault(e.place, "", "%s has no IPv4 address and %s no IPv6 address: the hosts have no IP version in common",
			e.plan.Nodes[hosts[without4]].Name, e.plan.Nodes[hosts[without6]].Name)
	}
	return without4 >= 0
}

// checkPaths checks that each host reaches the next one, and the next one reaches it.
func (e *patternEntry) checkPaths(hosts []int, ipv6 bool) {
	for i, from := range hosts {
		to := hosts[(i+1)%len(hosts)]
		for _, w := range []hostPair{{from, to}, {to, from}} {
			if _, _, ok := e.findPath(w.from, w.to, ipv6); !ok && from != to {
				e.FailOnce(e.place, e.pathHint(), "there is no path from %s to %s", e.plan.Nodes[w.from].Name, e.plan.Nodes[w.to].Name)
				return
			}
		}
	}
}

// packetMTU returns the longest packet of flows among hosts: the value in the file, or the
// smallest MTU of their links less the overhead of edge services. The file's value cannot
// exceed that MTU.
func (e *patternEntry) packetMTU(hosts []int, given *units.Bytes, ipv6 bool) units.Bytes {
	minMTU := maxMTU
	for _, h := range hosts {
		if p := e.firstPort(h); p != nil {
			minMTU = min(minMTU, min(e.settingsOf(p, 0).MTU, e.settingsOf(p, 1).MTU)-e.plan.Nodes[h].EdgeOverhead(ipv6))
		}
	}
	if given == nil {
		return minMTU
	}
	if *given > minMTU {
		e.ReportFault(given, "leave it out for the smallest mtu of the hosts' links", "mtu %v is larger than the links' mtu %v", *given, minMTU)
	}
	return *given
}

// maxMTU is larger than any link's MTU.
const maxMTU units.Bytes = 1 << 20
