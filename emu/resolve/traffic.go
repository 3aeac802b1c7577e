package resolve

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

const maxFlows = 100_000 // and transfers

// traffic resolves the modelled traffic.
type traffic struct {
	controls
	file     []labfile.Workload
	reach    *plan.Reach
	duration *units.Time     // of the run; nil if it ends with the last flow
	window   *labfile.Window // nil if all flows count
	names    map[string]int  // of flows and patterns; the last number tried for each
}

// resolveTraffic adds the flows, transfers and patterns of the workload to the plan.
func (v *traffic) resolveTraffic() {
	x := &transfers{traffic: v, pairsOf: map[int]int{}}
	for i := range v.file {
		f := &v.file[i]
		if pattern, _, _ := patternOf(f); pattern != nil {
			continue
		}
		flows, transfers := len(v.plan.Flows), len(v.plan.Transfers)
		var name *string
		if f.CBR != nil || f.Poisson != nil || f.OnOff != nil {
			name = v.addFlows(f)
		} else {
			name = x.addTransfers(f)
		}
		if name != nil {
			v.giveNames(name, v.plan.Flows[flows:], v.plan.Transfers[transfers:])
		}
	}
	v.resolvePatterns()
	for i := range v.plan.Flows {
		if f := &v.plan.Flows[i]; f.Name == "" {
			f.Name = freeName(v.names, v.pairName(f.From, f.To))
		}
	}
	for i := range v.plan.Transfers {
		if t := &v.plan.Transfers[i]; t.Name == "" {
			t.Name = freeName(v.names, v.pairName(t.From, t.To))
		}
	}
}

// giveNames names the flows and transfers of an entry that has a name; if there
// are several, their hosts are added to the name.
func (v *traffic) giveNames(name *string, flows []workload.Flow, transfers []workload.Transfer) {
	full := func(from, to int) string {
		given := *name
		if len(flows)+len(transfers) > 1 {
			given += "-" + v.pairName(from, to)
		}
		if v.names[given] > 0 {
			v.ReportFault(name, "every flow and every transfer needs its own", "another flow or transfer has the name %q", given)
		}
		v.names[given] = 1
		return given
	}
	for i := range flows {
		flows[i].Name = full(flows[i].From, flows[i].To)
	}
	for i := range transfers {
		transfers[i].Name = full(transfers[i].From, transfers[i].To)
	}
}

// freeName takes an unused name: name, or name-2 and so on. Names holds the
// last number tried for each.
func freeName(names map[string]int, name string) string {
	free := name
	for n := names[name] + 1; ; n++ {
		if n > 1 {
			free = fmt.Sprintf("%s-%d", name, n)
		}
		if names[free] == 0 {
			names[name], names[free] = n, max(names[free], 1)
			return free
		}
	}
}

// pairName returns a name for two hosts.
func (v *traffic) pairName(from, to int) string {
	return v.plan.Nodes[from].Name + "-" + v.plan.Nodes[to].Name
}

// hostPair is two hosts.
type hostPair struct{ from, to int }

// pairHosts pairs every host in from with every host in to, except itself. The
// places are those of the two lists.
func (v *traffic) pairHosts(from, to []int, atFrom, atTo any) (pairs []hostPair) {
	if !v.checkRoom(len(from)*len(to), atFrom) {
		return nil
	}
	for _, f := range from {
		for _, t := range to {
			if f != t {
				pairs = append(pairs, hostPair{f, t})
			}
		}
	}
	if len(from) == 1 && slices.Equal(from, to) {
		v.ReportFault(atTo, "", "%s cannot send to itself", v.plan.Nodes[from[0]].Name)
	}
	return pairs
}

// checkRoom reports whether there may be this many more flows and transfers.
func (v *traffic) checkRoom(more int, place any) bool {
	ok := len(v.plan.Flows)+len(v.plan.Transfers)+more <= maxFlows
	if !ok {
		v.ReportFault(place, "", "the workload has more than %d flows and transfers", maxFlows)
	}
	return ok
}

// chooseIPVersion chooses the version of IP between two hosts, unless the file does.
// Place is where the file names the hosts.
func (v *traffic) chooseIPVersion(from, to int, file *labfile.IPVersion, place any) (ipv6, ok bool) {
	a, b := &v.plan.Nodes[from], &v.plan.Nodes[to]
	ipv6 = !(hasIPVersion(a, false) && hasIPVersion(b, false))
	if file == nil {
		if ok = hasIPVersion(a, ipv6) && hasIPVersion(b, ipv6); !ok {
			v.ReportFault(place, "", "%s and %s have no IP version in common", a.Name, b.Name)
		}
		return ipv6, ok
	}
	ipv6 = *file == 6
	for _, n := range []*plan.Node{a, b} {
		if !hasIPVersion(n, ipv6) {
			v.ReportFault(file, "", "%s has no IPv%d address", n.Name, *file)
			return ipv6, false
		}
	}
	return ipv6, true
}

func (v *traffic) pathHint() string {
	if v.plan.Routed() {
		return "hosts do not forward: links, switches and routers must join them, and the sender's routes must lead to a router"
	}
	return "hosts do not forward: links and switches must join them"
}

// hasIPVersion reports whether a host has an address of a version of IP.
func hasIPVersion(n *plan.Node, ipv6 bool) bool {
	return slices.ContainsFunc(n.Ports, func(p plan.Port) bool { return plan.HasFamily(p.Addresses, ipv6) })
}

// findPath finds the interfaces of two hosts that are connected by links, switches
// and routers.
func (v *traffic) findPath(from, to int, ipv6 bool) (sender, receiver *plan.Port, ok bool) {
	a, b, _, ok := v.reach.Path(from, to, ipv6)
	return &v.plan.Nodes[a.Node].Ports[a.Port], &v.plan.Nodes[b.Node].Ports[b.Port], ok
}

// findHosts finds the hosts that an entry of the workload names, by name or by
// pattern. With nic all of them must have a NIC.
func (v *traffic) findHosts(names yamlfile.OneOrMore[string], place any, nic bool) (hosts []int, ok bool) {
	ok = true
	there := map[int]bool{}
	for i := range names {
		found, good := v.matchHosts(&names[i])
		ok = ok && good
		for _, n := range found {
			switch {
			case there[n] && names[i] == v.plan.Nodes[n].Name:
				v.ReportFault(&names[i], "write another entry to send twice as much", "%s is listed twice", names[i])
				ok = false
			case there[n]:
			case nic && !v.hasNIC(n, &names[i]):
				ok = false
			default:
				hosts = append(hosts, n)
			}
			there[n] = true
		}
	}
	if len(names) == 0 {
		v.ReportFault(place, "name at least one host", "the list is empty")
		ok = false
	}
	return hosts, ok
}

// matchHosts finds the host with a name, or those that a pattern matches.
func (v *traffic) matchHosts(name *string) (found []int, ok bool) {
	if !strings.ContainsAny(*name, `*?[\`) {
		if n, ok := v.findHost(name); ok {
			return []int{n}, true
		}
		return nil, false
	}
	if _, err := path.Match(*name, ""); err != nil {
		v.ReportFault(name, "a [ needs its ]: write for example h[12]", "%q is not a pattern", *name)
		return nil, false
	}
	for i := range v.plan.Nodes {
		if match, _ := path.Match(*name, v.plan.Nodes[i].Name); match && v.plan.Nodes[i].Kind == plan.Host {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		v.ReportFault(name, "the nodes are "+suggest.List(v.plan.NodeNames()), "no host matches %q", *name)
	}
	return found, len(found) > 0
}

// findHost finds the host with a name.
func (v *traffic) findHost(name *string) (int, bool) {
	n, ok := v.findNode(name, *name)
	if ok && v.plan.Nodes[n].Kind != plan.Host {
		v.ReportFault(name, "modelled traffic runs between hosts", "%s is a switch", *name)
		ok = false
	}
	return n, ok
}

// hasNIC reports whether a host has a NIC, and fails at place if not.
func (v *traffic) hasNIC(host int, place any) bool {
	n := &v.plan.Nodes[host]
	switch {
	case n.NIC != nil:
	case !slices.ContainsFunc(v.plan.Nodes, func(n plan.Node) bool { return n.NIC != nil }):
		v.ReportFault(place, "write nic: roce in host under kinds", "no host has a NIC")
	default:
		v.ReportFault(place, fmt.Sprintf("write nic: roce in %s, or in host under kinds", n.Name), "%s has no NIC", n.Name)
	}
	return n.NIC != nil
}
