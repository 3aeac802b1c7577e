package resolve

import (
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

// chooseIPVersion chooses the version of IP among hosts, unless the file does.
func (e *patternEntry) chooseIPVersion(hosts []int, file *labfile.IPVersion) (ipv6 bool) {
	of := func(ipv6 bool) int {
		return slices.IndexFunc(hosts, func(h int) bool { return !e.hasIPVersion(hostEnd{host: h}, ipv6) })
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

// packetMTU returns the longest packet of flows that use some interfaces: the value in the
// file, or the smallest MTU of their links less the overhead of edge services. The file's value cannot
// exceed that MTU.
func (e *patternEntry) packetMTU(used []plan.End, given *units.Bytes, ipv6 bool) units.Bytes {
	if len(used) == 0 {
		return unknownMTU
	}
	minMTU := maxMTU
	for _, x := range used {
		n := &e.plan.Nodes[x.Node]
		p := &n.Ports[x.Port]
		minMTU = min(minMTU, min(e.settingsOf(p, 0).MTU, e.settingsOf(p, 1).MTU)-n.EdgeOverhead(ipv6))
	}
	if given == nil {
		return minMTU
	}
	if *given > minMTU {
		e.ReportFault(given, "leave it out for the smallest mtu of the hosts' links", "mtu %v is larger than the links' mtu %v", *given, minMTU)
	}
	return *given
}

// unknownMTU stands for the MTU of an entry with faults.
const unknownMTU units.Bytes = 1500

// maxMTU is larger than any link's MTU.
const maxMTU units.Bytes = 1 << 20
