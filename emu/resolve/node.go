package resolve

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// nodes resolves the settings of nodes, except for their ports.
type nodes struct {
	*base
	kinds *labfile.Kinds
}

const maxJoin = units.Millisecond

var wordPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// defaultJoin is how long a packet waits for others by default: enough for
// several at 5 Gb/s and more, and no more than the scheduling of a busy machine
// costs.
const defaultJoin = 20 * units.Microsecond

// mergePrivateDirs merges the private directories of the kind and the node.
func mergePrivateDirs(kind, node []labfile.PrivateDir) (dirs []string) {
	for _, d := range slices.Concat(kind, node) {
		if !slices.Contains(dirs, string(d)) {
			dirs = append(dirs, string(d))
		}
	}
	return dirs
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

// resolveNodes adds the settings to the plan.
func (v *nodes) resolveNodes() {
	kind := &v.kinds.Host
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		v.checkKeys(n, file)
		if n.Kind == plan.Switch {
			n.ECMPSeed = sim.NewRand(v.plan.Seed, "ecmp "+n.Name).Uint64()
			setFrom(&n.ECMPSeed, file.ECMPSeed)
			v.resolveForwarding(n, file)
			continue
		}
		if len(n.Ports) == 0 {
			v.addPort(i, "eth0")
		}
		if n.VM != nil {
			v.resolveVM(i)
			n.Sysctls = v.mergeSysctls(v.kinds.VM.Sysctls, file.Sysctls)
			n.Exec = resolvePrograms(v.Reader, v.kinds.VM.Exec, file.Exec)
			continue
		}
		setFrom((*labfile.Attach)(&n.Attach), kind.Attach)
		setFrom((*labfile.Attach)(&n.Attach), file.Attach)
		if n.Attach != plan.NoDevice {
			v.resolveOffload(n, kind, file)
			n.Sysctls = v.mergeSysctls(kind.Sysctls, file.Sysctls)
			n.Exec = resolvePrograms(v.Reader, kind.Exec, file.Exec)
			n.Private = mergePrivateDirs(kind.Private, file.Private)
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
				v.ReportFault(key.at, "set attach: tap or attach: tun", "%s of %s has no effect: the host has no device", key.name, n.Name)
			}
		}
	}
}

// resolveOffload resolves how packets are carried to and from a host.
func (v *nodes) resolveOffload(n *plan.Node, kind *labfile.HostKind, file *labfile.Node) {
	setFrom((*labfile.Offload)(&n.Offload), kind.Offload)
	setFrom((*labfile.Offload)(&n.Offload), file.Offload)
	for _, window := range []*units.Time{kind.JoinWindow, file.JoinWindow} {
		v.checkTime(window, "join-window", maxJoin)
	}
	if n.Offload == plan.OffloadOff {
		if file.JoinWindow != nil {
			v.ReportFault(file.JoinWindow, "leave it out, or set offload: on", "join-window of %s has no effect: without offload nothing is joined", n.Name)
		}
		return
	}
	n.Join = defaultJoin
	setFrom(&n.Join, kind.JoinWindow)
	setFrom(&n.Join, file.JoinWindow)
}

// checkKeys reports keys that have no meaning for the node's kind.
func (v *nodes) checkKeys(n *plan.Node, file *labfile.Node) {
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
		{"learning", labfile.SwitchNode, labfile.SwitchNode, file.Learning != nil, file.Learning},
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
			v.ReportFault(key.at, "", "%s is a setting of a %v, but %s is a %v", key.name, key.kind, n.Name, k)
		}
	}
}

// mergeSysctls merges the kernel settings of the kind and the node.
func (v *nodes) mergeSysctls(kind, node yamlfile.Dict[yamlfile.Scalar]) []plan.Sysctl {
	values := map[string]string{}
	for _, d := range []yamlfile.Dict[yamlfile.Scalar]{kind, node} {
		for i := range d {
			if err := checkSysctl(d[i].Name, string(d[i].Value)); err != nil {
				v.ReportFault(&d[i].Name, "", "%v", err)
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
