package resolve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Default limits of queues.
const (
	switchQueue = units.MB
	hostQueue   = 10 * units.MB
)

// settings resolves the settings of nodes, except for their ports.
func (v *resolver) settings() {
	kind := &v.lab.Topology.Kinds.Host
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		v.checkKeys(n, file)
		if n.Kind == plan.Switch {
			n.ECMPSeed = sim.NewRand(v.plan.Seed, "ecmp "+n.Name).Uint64()
			set(&n.ECMPSeed, file.ECMPSeed)
			v.forwarding(n, file)
			continue
		}
		if len(n.Ports) == 0 {
			v.addPort(i, "eth0")
		}
		if n.VM != nil {
			v.vm(i)
			n.Sysctls = v.sysctls(v.lab.Topology.Kinds.VM.Sysctls, file.Sysctls)
			n.Exec = v.programs(v.lab.Topology.Kinds.VM.Exec, file.Exec)
			continue
		}
		set((*labfile.Attach)(&n.Attach), kind.Attach)
		set((*labfile.Attach)(&n.Attach), file.Attach)
		if n.Attach != plan.NoDevice {
			v.offload(n, kind, file)
			n.Sysctls = v.sysctls(kind.Sysctls, file.Sysctls)
			n.Exec = v.programs(kind.Exec, file.Exec)
			n.Private = private(kind.Private, file.Private)
			continue
		}
		for _, key := range []struct {
			name string
			set  bool
			at   any
		}{
			{"sysctls", len(file.Sysctls) > 0, &file.Sysctls}, {"private", len(file.Private) > 0, &file.Private}, {"routes", len(file.Routes) > 0, &file.Routes}, {"exec", len(file.Exec) > 0, &file.Exec},
			{"offload", file.Offload != nil, file.Offload}, {"join-window", file.JoinWindow != nil, file.JoinWindow},
		} {
			if key.set {
				v.Fail(key.at, "set attach: tap or attach: tun", "%s of %s has no effect: the host has no device", key.name, n.Name)
			}
		}
	}
}

// defaultJoin is how long a packet waits for others by default: enough for
// several at 5 Gb/s and more, and no more than the scheduling of a busy machine
// costs.
const defaultJoin = 20 * units.Microsecond

// offload resolves how packets are carried to and from a host.
func (v *resolver) offload(n *plan.Node, kind *labfile.HostKind, file *labfile.Node) {
	set((*labfile.Offload)(&n.Offload), kind.Offload)
	set((*labfile.Offload)(&n.Offload), file.Offload)
	for _, window := range []*units.Time{kind.JoinWindow, file.JoinWindow} {
		v.checkTime(window, "join-window", maxJoin)
	}
	if n.Offload == plan.OffloadOff {
		if file.JoinWindow != nil {
			v.Fail(file.JoinWindow, "leave it out, or set offload: on", "join-window of %s has no effect: without offload nothing is joined", n.Name)
		}
		return
	}
	n.Join = defaultJoin
	set(&n.Join, kind.JoinWindow)
	set(&n.Join, file.JoinWindow)
}

// nodeFileOf returns what the file says about a node.
func (v *resolver) nodeFileOf(node int) *labfile.Node {
	if f := v.files[node]; f != nil {
		return f
	}
	return &labfile.Node{}
}

// checkKeys reports keys that have no meaning for the node's kind.
func (v *resolver) checkKeys(n *plan.Node, file *labfile.Node) {
	for _, key := range []struct {
		name string
		kind labfile.NodeKind
		also labfile.NodeKind
		set  bool
		at   any
	}{
		{"attach", labfile.HostNode, labfile.HostNode, file.Attach != nil, file.Attach},
		{"offload", labfile.HostNode, labfile.HostNode, file.Offload != nil, file.Offload},
		{"join-window", labfile.HostNode, labfile.HostNode, file.JoinWindow != nil, file.JoinWindow},
		{"mac", labfile.HostNode, labfile.VMNode, file.MAC != nil, file.MAC},
		{"nic", labfile.HostNode, labfile.HostNode, file.NIC != nil, file.NIC},
		{"edge", labfile.HostNode, labfile.VMNode, file.Edge != nil, file.Edge},
		{"sysctls", labfile.HostNode, labfile.VMNode, len(file.Sysctls) > 0, &file.Sysctls},
		{"exec", labfile.HostNode, labfile.VMNode, len(file.Exec) > 0, &file.Exec},
		{"private", labfile.HostNode, labfile.HostNode, len(file.Private) > 0, &file.Private},
		{"interfaces", labfile.HostNode, labfile.VMNode, len(file.Interfaces) > 0, &file.Interfaces},
		{"ecmp-seed", labfile.SwitchNode, labfile.SwitchNode, file.ECMPSeed != nil, file.ECMPSeed},
		{"ports", labfile.SwitchNode, labfile.SwitchNode, len(file.Ports) > 0, &file.Ports},
		{"buffer", labfile.SwitchNode, labfile.SwitchNode, file.Buffer != nil, file.Buffer},
		{"pause", labfile.SwitchNode, labfile.SwitchNode, file.Pause != nil, file.Pause},
		{"cut-through", labfile.SwitchNode, labfile.SwitchNode, file.CutThrough != nil, file.CutThrough},
		{"forwarding", labfile.SwitchNode, labfile.SwitchNode, file.Forwarding != nil, file.Forwarding},
		{"image", labfile.VMNode, labfile.VMNode, file.Image != nil, file.Image},
		{"kernel", labfile.VMNode, labfile.VMNode, file.Kernel != nil, file.Kernel},
		{"initrd", labfile.VMNode, labfile.VMNode, file.Initrd != nil, file.Initrd},
		{"disk", labfile.VMNode, labfile.VMNode, file.Disk != nil, file.Disk},
		{"persist", labfile.VMNode, labfile.VMNode, file.Persist != nil, file.Persist},
		{"append", labfile.VMNode, labfile.VMNode, file.Append != nil, file.Append},
		{"memory", labfile.VMNode, labfile.VMNode, file.Memory != nil, file.Memory},
		{"cpus", labfile.VMNode, labfile.VMNode, file.CPUs != nil, file.CPUs},
		{"accel", labfile.VMNode, labfile.VMNode, file.Accel != nil, file.Accel},
		{"console", labfile.VMNode, labfile.VMNode, file.Console != nil, file.Console},
		{"ready", labfile.VMNode, labfile.VMNode, file.Ready != nil, file.Ready},
		{"ready-limit", labfile.VMNode, labfile.VMNode, file.Limit != nil, file.Limit},
	} {
		if k := kindOf(n); key.set && k != key.kind && k != key.also {
			v.Fail(key.at, "", "%s is a setting of a %v, but %s is a %v", key.name, key.kind, n.Name, k)
		}
	}
}

// private merges the private directories of the kind and the node.
func private(kind, node []labfile.PrivateDir) (dirs []string) {
	for _, d := range slices.Concat(kind, node) {
		if !slices.Contains(dirs, string(d)) {
			dirs = append(dirs, string(d))
		}
	}
	return dirs
}

// sysctls merges the kernel settings of the kind and the node.
func (v *resolver) sysctls(kind, node yamlfile.Dict[yamlfile.Scalar]) []plan.Sysctl {
	values := map[string]string{}
	for _, d := range []yamlfile.Dict[yamlfile.Scalar]{kind, node} {
		for i := range d {
			if err := checkSysctl(d[i].Name, string(d[i].Value)); err != nil {
				v.Fail(&d[i].Name, "", "%v", err)
			}
			values[d[i].Name] = string(d[i].Value)
		}
	}
	var sorted []plan.Sysctl
	for _, key := range slices.Sorted(maps.Keys(values)) {
		sorted = append(sorted, plan.Sysctl{Key: key, Value: values[key]})
	}
	return sorted
}

// portSettings resolves queues, and the settings of single ports and
// interfaces. The most specific setting wins, in this order: the link's
// direction, the port, the node, the kind.
func (v *resolver) portSettings() {
	kinds := &v.lab.Topology.Kinds
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		queue, limit := file.Queue.Over(v.hostQueue(n)), hostQueue
		single := make([]labfile.Queue, len(n.Ports))
		if n.Kind == plan.Switch {
			queue, limit = file.Queue.Over(kinds.Switch.Queue), switchQueue
			for j := range file.Ports {
				if port, ok := v.port(i, &file.Ports[j].Name); ok {
					single[port] = file.Ports[j].Value.Queue
				}
			}
		} else {
			for j := range file.Interfaces {
				if port, ok := v.port(i, &file.Interfaces[j].Name); ok {
					single[port] = file.Interfaces[j].Value.Queue
				}
			}
		}
		for p := range n.Ports {
			at := plan.End{Node: i, Port: p}
			q := v.queues[at].Over(single[p]).Over(queue)
			v.queues[at] = q
			n.Ports[p].Queue.Limit = limit
			set(&n.Ports[p].Queue.Limit, q.Limit)
			if q.Mark != nil {
				mark := v.mark(q.Mark, v.rateOf(&n.Ports[p]))
				n.Ports[p].Queue.Mark = mark
				if v.deep[i] == nil || n.Kind == plan.Host {
					v.checkMark(n, mark, n.Ports[p].Queue.Limit, q.Mark)
				}
			}
		}
	}
}

// hostQueue returns the queue that the kind of a host or virtual machine gives
// it.
func (v *resolver) hostQueue(n *plan.Node) labfile.Queue {
	if n.VM != nil {
		return v.lab.Topology.Kinds.VM.Queue
	}
	return v.lab.Topology.Kinds.Host.Queue
}

// port finds the port of a node that the file has settings for.
func (v *resolver) port(node int, name *string) (int, bool) {
	end, ok := v.ports[v.plan.Nodes[node].Name+":"+*name]
	if !ok {
		v.failName(name, func() error { return v.plan.NoPort(node, *name) })
	}
	return end.Port, ok
}

// directions checks every direction of every link against the ports at its
// ends.
func (v *resolver) directions() {
	v.tunnelMTUs()
	for i, l := range v.plan.Links {
		for d := range l.Dir {
			v.checkDirection(i, d, l.Dir[d], v.linkPlaces[i])
		}
	}
}

const ipv6Needs = "mtu %d is less than the %d that IPv6 needs, and %s"

// checkDirection checks the settings of one direction of a link. Place is where
// they are set.
func (v *resolver) checkDirection(link, direction int, s links.Settings, place any) {
	ends := v.plan.Links[link].Ends
	from := ends[direction]
	port := &v.plan.Nodes[from.Node].Ports[from.Port]
	frame := s.MTU + wire.EthernetHeader
	if v.deep[from.Node] != nil {
		v.checkClassLimits(from, frame, place)
	} else if port.Queue.Limit < frame {
		at := place
		if limit := v.queues[from].Limit; limit != nil {
			at = limit
		}
		v.Fail(at, "", "the queue of %s holds %v, less than one packet of the MTU (%dB with its Ethernet header)",
			v.plan.PortName(from.Node, from.Port), port.Queue.Limit, frame)
	}
	if mtu := v.lab.Topology.Kinds.Link.MTU; mtu != nil && units.Bytes(*mtu) == s.MTU {
		place = mtu // the links share it
	}
	for _, end := range ends {
		if r := v.plan.Nodes[end.Node].Router; r != nil && s.MTU < plan.MinMTU6 && speaksOwn(r, true) {
			v.Fail(place, "raise the mtu, or switch IPv6 off with addressing: {ipv6: none}",
				ipv6Needs, s.MTU, plan.MinMTU6, v.plan.Nodes[end.Node].Name+" forwards IPv6")
			return
		}
		if s.MTU < plan.MinMTU6 && plan.HasFamily(v.plan.Nodes[end.Node].Ports[end.Port].Addresses, true) {
			v.Fail(place, "raise the mtu, or switch IPv6 off with addressing: {ipv6: none}",
				ipv6Needs, s.MTU, plan.MinMTU6, v.plan.PortName(end.Node, end.Port)+" has an IPv6 address")
			return
		}
		n := &v.plan.Nodes[end.Node]
		if over := n.EdgeOverhead(true); s.MTU-over < plan.MinMTU6 && plan.HasFamily(n.Ports[end.Port].Addresses, true) {
			v.Fail(place, fmt.Sprintf("give the link an mtu of %d or more, or switch IPv6 off with addressing: {ipv6: none}", plan.MinMTU6+over),
				"mtu %d leaves %d inside the tunnels of %s, less than the %d that IPv6 needs, and %s has an IPv6 address",
				s.MTU, s.MTU-over, n.Edge.Name, plan.MinMTU6, v.plan.PortName(end.Node, end.Port))
			return
		}
	}
}

// checkSysctl checks a kernel setting by its key. The key becomes a path below
// /proc/sys, where only net. is specific to one host.
func checkSysctl(key, value string) error {
	parts := strings.Split(key, ".")
	for _, p := range parts {
		if !wordPattern.MatchString(p) {
			return fmt.Errorf("%q is not a sysctl: write for example net.ipv4.tcp_ecn", key)
		}
	}
	if parts[0] != "net" || len(parts) < 3 {
		return fmt.Errorf("%q is not specific to a host: only sysctls that begin with net. are, such as net.ipv4.tcp_ecn", key)
	}
	if value == "" || len(value) > 256 || strings.ContainsAny(value, "\n\x00") {
		return errors.New("the value of a sysctl must be one line of at most 256 characters")
	}
	return nil
}

// planKind returns the plan's kind for k.
func planKind(k labfile.NodeKind) plan.Kind {
	if k == labfile.SwitchNode {
		return plan.Switch
	}
	return plan.Host
}

// kindOf returns the kind of a node in a file.
func kindOf(n *plan.Node) labfile.NodeKind {
	switch {
	case n.Kind == plan.Switch:
		return labfile.SwitchNode
	case n.VM != nil:
		return labfile.VMNode
	}
	return labfile.HostNode
}
