package spec

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

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
			if e.Set.Rate != nil && changed.Rate == 0 {
				v.checkUnlimited(v.plan.Links[e.Link].Ends[d], e.Set.Rate)
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

// workload resolves the modelled traffic.
func (v *resolver) workload() {
	names := map[string]int{}
	for i := range v.lab.Workload {
		f := &v.lab.Workload[i]
		flows, transfers := len(v.plan.Flows), len(v.plan.Transfers)
		var name *string
		if f.CBR != nil || f.Poisson != nil || f.OnOff != nil {
			name = v.flows(f)
		} else {
			name = v.transfers(f)
		}
		if name != nil {
			v.giveNames(names, name, v.plan.Flows[flows:], v.plan.Transfers[transfers:])
		}
	}
	for i := range v.plan.Flows {
		if f := &v.plan.Flows[i]; f.Name == "" {
			f.Name = freeName(names, v.pairName(f.From, f.To))
		}
	}
	for i := range v.plan.Transfers {
		if t := &v.plan.Transfers[i]; t.Name == "" {
			t.Name = freeName(names, v.pairName(t.From, t.To))
		}
	}
}

// giveNames names the flows and transfers of an entry that has a name, several
// after their hosts as well.
func (v *resolver) giveNames(names map[string]int, name *string, flows []workload.Flow, transfers []workload.Transfer) {
	full := func(from, to int) string {
		given := *name
		if len(flows)+len(transfers) > 1 {
			given += "-" + v.pairName(from, to)
		}
		if names[given] > 0 {
			v.fail(name, "every flow and every transfer needs its own", "another flow or transfer has the name %q", given)
		}
		names[given] = 1
		return given
	}
	for i := range flows {
		flows[i].Name = full(flows[i].From, flows[i].To)
	}
	for i := range transfers {
		transfers[i].Name = full(transfers[i].From, transfers[i].To)
	}
}

// freeName takes a name that nobody has: name, or name-2 and so on. Names has
// the last number tried of each.
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

// pairName names two hosts.
func (v *resolver) pairName(from, to int) string {
	return v.plan.Nodes[from].Name + "-" + v.plan.Nodes[to].Name
}

// flows resolves one entry of the workload that sends packets, and gives its
// name.
func (v *resolver) flows(f *workloadFile) *string {
	flow, file := v.flow(f)
	if flow.For == 0 && v.lab.Duration == nil {
		v.fail(f, "write for: in the flow, or duration: in the file", "the flow sends until the run ends, and nothing says when that is")
	}
	from, ok1 := v.hosts(file.From, &file.From, false)
	to, ok2 := v.hosts(file.To, &file.To, false)
	if !ok1 || !ok2 {
		return nil
	}
	for _, p := range v.pairs(from, to, &file.From, &file.To) {
		flow.From, flow.To = p.from, p.to
		if v.checkPath(&flow, file) {
			v.plan.Flows = append(v.plan.Flows, flow)
		}
	}
	return file.Name
}

// flow is what an entry of the workload says of its flows, except for the hosts.
func (v *resolver) flow(f *workloadFile) (workload.Flow, *constantFile) {
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

// hostPair is two hosts.
type hostPair struct{ from, to int }

// pairs gives every one of from with every one of to, but itself. The places
// are those of the two lists.
func (v *resolver) pairs(from, to []int, atFrom, atTo any) (pairs []hostPair) {
	if !v.room(len(from)*len(to), atFrom) {
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
		v.fail(atTo, "", "%s does not send to itself", v.plan.Nodes[from[0]].Name)
	}
	return pairs
}

// room tells whether there may be so many more flows and transfers.
func (v *resolver) room(more int, place any) bool {
	ok := len(v.plan.Flows)+len(v.plan.Transfers)+more <= maxFlows
	if !ok {
		v.fail(place, "", "the workload has more than %d flows and transfers", maxFlows)
	}
	return ok
}

// checkPath resolves the version of IP of a flow and judges whether its packets
// get from one host to the other.
func (v *resolver) checkPath(flow *workload.Flow, file *constantFile) (ok bool) {
	if flow.IPv6, ok = v.version(flow.From, flow.To, file.IP, &file.To); !ok {
		return false
	}
	from, to := &v.plan.Nodes[flow.From], &v.plan.Nodes[flow.To]
	sender, receiver, ok := v.path(flow.From, flow.To, flow.IPv6)
	if !ok {
		v.fail(&file.To, v.pathHint(), "there is no path from %s to %s", from.Name, to.Name)
		return false
	}
	version, over := 4, overIPv4
	if flow.IPv6 {
		version, over = 6, overIPv6
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

// version chooses the version of IP between two hosts, unless the file does.
// Place is where the hosts stand.
func (v *resolver) version(from, to int, file *ipVersion, place any) (ipv6, ok bool) {
	a, b := &v.plan.Nodes[from], &v.plan.Nodes[to]
	ipv6 = !(speaks(a, false) && speaks(b, false))
	if file == nil {
		if ok = speaks(a, ipv6) && speaks(b, ipv6); !ok {
			v.fail(place, "", "%s and %s have no addresses of the same version of IP", a.Name, b.Name)
		}
		return ipv6, ok
	}
	ipv6 = *file == 6
	for _, n := range []*Node{a, b} {
		if !speaks(n, ipv6) {
			v.fail(file, "", "%s has no IPv%d address", n.Name, *file)
			return ipv6, false
		}
	}
	return ipv6, true
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

// path finds the interfaces of two hosts that links, switches and routers join.
func (v *resolver) path(from, to int, ipv6 bool) (sender, receiver *Port, ok bool) {
	a, b, _, ok := v.reach.Path(from, to, ipv6)
	return &v.plan.Nodes[a.Node].Ports[a.Port], &v.plan.Nodes[b.Node].Ports[b.Port], ok
}

// settingsOf gives the settings of the direction that leaves a port, or with
// 1 of the one that comes to it.
func (v *resolver) settingsOf(p *Port, coming int) links.Settings {
	return v.plan.Links[p.Link].Dir[p.End^coming]
}

// hosts finds the hosts that an entry of the workload names, by name or by
// pattern. With nic all of them must have one.
func (v *resolver) hosts(names oneOrMore[string], place any, nic bool) (hosts []int, ok bool) {
	ok = true
	there := map[int]bool{}
	for i := range names {
		found, good := v.matchHosts(&names[i])
		ok = ok && good
		for _, n := range found {
			switch {
			case there[n] && names[i] == v.plan.Nodes[n].Name:
				v.fail(&names[i], "write another entry to send twice as much", "%s is there twice", names[i])
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
		v.fail(place, "name at least one host", "the list is empty")
		ok = false
	}
	return hosts, ok
}

// matchHosts finds the host of a name, or those that a pattern matches.
func (v *resolver) matchHosts(name *string) (found []int, ok bool) {
	if !strings.ContainsAny(*name, `*?[\`) {
		if n, ok := v.host(name); ok {
			return []int{n}, true
		}
		return nil, false
	}
	if _, err := path.Match(*name, ""); err != nil {
		v.fail(name, "a [ needs its ]: write for example h[12]", "%q is not a pattern", *name)
		return nil, false
	}
	for i := range v.plan.Nodes {
		if match, _ := path.Match(*name, v.plan.Nodes[i].Name); match && v.plan.Nodes[i].Kind == Host {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		v.fail(name, "the nodes are "+listSome(v.plan.nodeNames()), "no host matches %q", *name)
	}
	return found, len(found) > 0
}

// host finds the host of a name.
func (v *resolver) host(name *string) (int, bool) {
	n, ok := v.node(name, *name)
	if ok && v.plan.Nodes[n].Kind != Host {
		v.fail(name, "modelled traffic runs between hosts", "%s is a switch", *name)
		ok = false
	}
	return n, ok
}
