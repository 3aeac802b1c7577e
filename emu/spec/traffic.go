package spec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/traces/workload"
)

// Overhead of a packet's UDP payload below the MTU: IP and UDP headers.
const (
	overIPv4 units.Bytes = 20 + 8
	overIPv6 units.Bytes = 40 + 8
)

// events resolves the changes to links, and tries them in the order of their
// times so that each is judged beside what the earlier ones left.
func (v *resolver) events() {
	type located struct {
		Event
		file *eventFile
	}
	var events []located
	for i := range v.lab.Events {
		f := &v.lab.Events[i]
		v.checkTime(&f.At, "at", maxTime)
		name := f.Link
		if name == nil {
			name = f.From
		}
		if name == nil || f.Link != nil && f.From != nil {
			v.fail(f, "link changes both directions, from the one that leaves the endpoint", "an event has one of link and from")
			continue
		}
		if f.Set == (LinkPatch{}) {
			v.fail(&f.Set, "write for example set: {state: down}", "the event sets nothing")
			continue
		}
		end, ok := v.end(name)
		if !ok {
			continue
		}
		port := v.plan.Nodes[end.Node].Ports[end.Port]
		if port.Link < 0 {
			v.fail(name, "", "%s has no link", *name)
			continue
		}
		e := Event{At: f.At, Link: port.Link, Dir: [2]bool{true, true}, Set: f.Set}
		if f.From != nil {
			e.Dir[1-port.End] = false
		}
		events = append(events, located{e, f})
	}
	slices.SortStableFunc(events, func(a, b located) int { return cmp.Compare(a.At, b.At) })

	now := map[int]*[2]links.Settings{}
	for _, e := range events {
		v.plan.Events = append(v.plan.Events, e.Event)
		if now[e.Link] == nil {
			dir := v.plan.Links[e.Link].Dir
			now[e.Link] = &dir
		}
		for d := range e.Dir {
			if !e.Dir[d] {
				continue
			}
			changed, err := e.Set.Apply(now[e.Link][d])
			if err != nil {
				v.checkPatch(err, &e.file.Set)
				continue
			}
			if e.Set.MTU != nil {
				v.checkDirection(e.Link, d, changed, e.Set.MTU)
			}
			now[e.Link][d] = changed
		}
	}
}

// end finds the port that a value of the file names.
func (v *resolver) end(name *string) (End, bool) {
	if end, ok := v.ports[*name]; ok {
		return end, true
	}
	v.failName(name, func() *nameError {
		_, err := v.plan.endpoint(*name)
		return err
	})
	return End{}, false
}

// flows resolves the workload.
func (v *resolver) flows() {
	names := map[string]bool{}
	var unnamed []int
	for i := range v.lab.Workload {
		f := &v.lab.Workload[i]
		flow, file := v.flow(f)
		if flow.For == 0 && v.lab.Duration == nil {
			v.fail(f, "write for: in the flow, or duration: in the file", "the flow sends until the run ends, and nothing says when that is")
		}
		first := len(v.plan.Flows)
		if !v.pairs(flow, file) {
			return
		}
		for j := first; j < len(v.plan.Flows); j++ {
			if file.Name == nil {
				unnamed = append(unnamed, j)
				continue
			}
			name := *file.Name
			if len(v.plan.Flows) > first+1 {
				name += "-" + v.pairName(j)
			}
			if names[name] {
				v.fail(file.Name, "every flow needs its own", "another flow has the name %q", name)
			}
			names[name] = true
			v.plan.Flows[j].Name = name
		}
	}
	for _, j := range unnamed {
		name := v.pairName(j)
		for n := 2; names[name]; n++ {
			name = fmt.Sprintf("%s-%d", v.pairName(j), n)
		}
		names[name] = true
		v.plan.Flows[j].Name = name
	}
}

// pairName names a flow after its hosts.
func (v *resolver) pairName(flow int) string {
	f := &v.plan.Flows[flow]
	return v.plan.Nodes[f.From].Name + "-" + v.plan.Nodes[f.To].Name
}

// flow resolves one entry of the workload, except for its hosts.
func (v *resolver) flow(f *flowFile) (workload.Flow, *constantFile) {
	var flow workload.Flow
	var file *constantFile
	switch {
	case f.CBR != nil:
		flow.Pattern, file = workload.CBR, f.CBR
	case f.Poisson != nil:
		flow.Pattern, file = workload.Poisson, f.Poisson
	default:
		flow.Pattern, file = workload.OnOff, &f.OnOff.constantFile
		flow.On, flow.Off = f.OnOff.On, f.OnOff.Off
		flow.Exponential = f.OnOff.Phases == exponential
		v.checkPhase(&f.OnOff.On, "on")
		v.checkPhase(&f.OnOff.Off, "off")
	}
	flow.Rate, flow.Size, flow.At = file.Rate, file.Size, file.At
	flow.ECT, flow.DSCP = file.ECT, uint8(file.DSCP)
	set(&flow.For, file.For)
	if file.Rate == 0 {
		v.fail(&file.Rate, "write for example rate: 10Mbps", "a flow without a limit to its rate")
	}
	if file.Size == 0 {
		v.fail(&file.Size, "write for example size: 1200B", "packets without payload")
	}
	if file.For != nil && *file.For == 0 {
		v.fail(file.For, "leave for out to send until the run ends", "a flow of no duration")
	}
	if file.Name != nil {
		v.checkName(file.Name, "a flow's name", *file.Name, maxNodeName)
	}
	v.checkTime(&file.At, "at", maxTime)
	v.checkTime(file.For, "for", maxTime)
	return flow, file
}

func (v *resolver) checkPhase(t *units.Time, what string) {
	if *t == 0 {
		v.fail(t, "a flow without phases is cbr", "a phase of no duration")
	}
	v.checkTime(t, what, maxTime)
}

// pairs adds the flow between every sender and every receiver but itself. It
// is false when there are too many to go on.
func (v *resolver) pairs(flow workload.Flow, file *constantFile) bool {
	from, ok1 := v.hosts(file.From, &file.From)
	to, ok2 := v.hosts(file.To, &file.To)
	if !ok1 || !ok2 {
		return true
	}
	if len(v.plan.Flows)+len(from)*len(to) > maxFlows {
		v.fail(&file.From, "", "the workload has more than %d flows", maxFlows)
		return false
	}
	for _, flow.From = range from {
		for _, flow.To = range to {
			if flow.From != flow.To && v.checkPath(&flow, file) {
				v.plan.Flows = append(v.plan.Flows, flow)
			}
		}
	}
	if len(from) == 1 && slices.Equal(from, to) {
		v.fail(&file.To, "", "%s does not send to itself", v.plan.Nodes[from[0]].Name)
	}
	return true
}

// checkPath chooses the version of IP between two hosts, unless the file
// does, and judges whether packets of the flow get from one to the other.
func (v *resolver) checkPath(flow *workload.Flow, file *constantFile) bool {
	from, to := &v.plan.Nodes[flow.From], &v.plan.Nodes[flow.To]
	flow.IPv6 = !(speaks(from, false) && speaks(to, false))
	if file.IP != nil {
		flow.IPv6 = *file.IP == 6
	}
	version, over := 4, overIPv4
	if flow.IPv6 {
		version, over = 6, overIPv6
	}
	if file.IP == nil && !(speaks(from, flow.IPv6) && speaks(to, flow.IPv6)) {
		v.fail(&file.To, "", "%s and %s have no addresses of the same version of IP", from.Name, to.Name)
		return false
	}
	for _, n := range []*Node{from, to} {
		if !speaks(n, flow.IPv6) {
			v.fail(file.IP, "", "%s has no IPv%d address", n.Name, version)
			return false
		}
	}
	sender, receiver, ok := v.path(flow)
	if !ok {
		v.fail(&file.To, v.pathHint(), "there is no path from %s to %s", from.Name, to.Name)
		return false
	}
	for _, s := range []links.Settings{v.settingsOf(sender, 0), v.settingsOf(receiver, 1)} {
		if packet := flow.Size + over; packet > s.MTU {
			v.fail(&file.Size, fmt.Sprintf("the largest payload is %dB", s.MTU-over),
				"a payload of %dB makes packets of %dB with the IPv%d and UDP headers, more than the mtu %d between %s and %s",
				flow.Size, packet, version, s.MTU, from.Name, to.Name)
			return false
		}
	}
	return true
}

func (v *resolver) pathHint() string {
	if v.plan.Routed() {
		return "hosts do not forward: links, switches and routers must join them, and the sender's routes lead to a router"
	}
	return "hosts do not forward: links and switches must join them"
}

// speaks tells whether a host has an address of a version of IP.
func speaks(n *Node, ipv6 bool) bool {
	return slices.ContainsFunc(n.Ports, func(p Port) bool { return hasFamily(p.Addresses, ipv6) })
}

// path finds the interfaces of a flow's hosts that links, switches and routers
// join.
func (v *resolver) path(flow *workload.Flow) (sender, receiver *Port, ok bool) {
	from, to, _, ok := v.reach.Path(flow.From, flow.To, flow.IPv6)
	return &v.plan.Nodes[from.Node].Ports[from.Port], &v.plan.Nodes[to.Node].Ports[to.Port], ok
}

// settingsOf gives the settings of the direction that leaves a port, or with
// 1 of the one that comes to it.
func (v *resolver) settingsOf(p *Port, coming int) links.Settings {
	return v.plan.Links[p.Link].Dir[p.End^coming]
}

// hosts finds the hosts that a flow names.
func (v *resolver) hosts(names oneOrMore[string], place any) (hosts []int, ok bool) {
	ok = true
	for i := range names {
		n, found := v.node(&names[i], names[i])
		switch {
		case !found:
		case v.plan.Nodes[n].Kind != Host:
			v.fail(&names[i], "modelled traffic runs between hosts", "%s is a switch", names[i])
		case slices.Contains(hosts, n):
			v.fail(&names[i], "write another flow to send twice as much", "%s is there twice", names[i])
		default:
			hosts = append(hosts, n)
			continue
		}
		ok = false
	}
	if len(names) == 0 {
		v.fail(place, "name at least one host", "the list is empty")
		ok = false
	}
	return hosts, ok
}
