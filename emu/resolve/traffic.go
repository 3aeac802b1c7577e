package resolve

import (
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
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
	shared   map[int][2]int  // connections that flows of a pair share, by host as sender and as receiver
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
			f.Name = freeName(v.names, v.pairName(flowPair(f)))
		}
	}
	for i := range v.plan.Transfers {
		if t := &v.plan.Transfers[i]; t.Name == "" {
			t.Name = freeName(v.names, v.pairName(transferPair(t)))
		}
	}
}

// giveNames names the flows and transfers of an entry that has a name; if there
// are several, their hosts are added to the name.
func (v *traffic) giveNames(name *string, flows []workload.Flow, transfers []workload.Transfer) {
	full := func(p hostPair) string {
		given := *name
		if len(flows)+len(transfers) > 1 {
			given += "-" + v.pairName(p)
		}
		if v.names[given] > 0 {
			v.ReportFault(name, "every flow and every transfer needs its own", "another flow or transfer has the name %q", given)
		}
		v.names[given] = 1
		return given
	}
	for i := range flows {
		flows[i].Name = full(flowPair(&flows[i]))
	}
	for i := range transfers {
		transfers[i].Name = full(transferPair(&transfers[i]))
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

// checkRoom reports whether there may be this many more flows and transfers.
func (v *traffic) checkRoom(more int, place any) bool {
	ok := len(v.plan.Flows)+len(v.plan.Transfers)+more <= maxFlows
	if !ok {
		v.ReportFault(place, "", "the workload has more than %d flows and transfers", maxFlows)
	}
	return ok
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
