package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	netnslab "github.com/weftlab/weft/netns-lab"
)

// feature is a kernel feature that was tried.
type feature struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"` // "": it works
}

// attempt describes how to try a feature, in a separate namespace, and what its
// absence means.
type attempt struct {
	name    string
	try     func(h *netlink.Handle) error
	absent  Verdict
	means   string
	module  string // with the feature
	setting string // of the kernel's configuration
}

// attempts lists the attempts in the order in which they are made; the TAP is first.
var attempts = []attempt{
	{"TAP device", tryTAP, Bad, "every real host has a TUN or TAP device", "tun", "TUN"},
	{"tbf", tryQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc {
		return &netlink.Tbf{QdiscAttrs: a, Rate: 1e6, Limit: 1e6, Buffer: 1e5}
	}), Bad, "the shaper of every real host on a link with a rate", "sch_tbf", "NET_SCH_TBF"},
	{pausing, tryPausing, Warn, "a pause of one traffic class of a real host stops all of its traffic", "tun", "BPF_SYSCALL and CONFIG_TUN of Linux 4.16"},
	{"veth", tryLink(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}), Warn, "programs in hosts that make containers will not run", "veth", "VETH"},
	{"bridge", tryLink(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}), Warn, "programs in hosts that make containers or virtual machines will not run", "bridge", "BRIDGE"},
	{"8021q", tryVLAN, Warn, "hosts cannot tag frames with a VLAN", "8021q", "VLAN_8021Q"},
	{"netem", tryQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc {
		return netlink.NewNetem(a, netlink.NetemQdiscAttrs{Latency: 1000})
	}), Warn, "hosts cannot use tc's netem; links of the lab do not need it", "sch_netem", "NET_SCH_NETEM"},
	{"fq", tryQdisc(func(a netlink.QdiscAttrs) netlink.Qdisc { return netlink.NewFq(a) }), Warn, "hosts cannot use tc's fq", "sch_fq", "NET_SCH_FQ"},
	{"DCTCP", tryDCTCP, Warn, "hosts cannot use DCTCP", "tcp_dctcp", "TCP_CONG_DCTCP"},
}

// offloads are the super-packets that a TAP may hand over (linux/if_tun.h).
var offloads = []struct {
	name string
	bits int
}{
	{"TSO4", unix.TUN_F_TSO4}, {"TSO6", unix.TUN_F_TSO6},
	{"TSO_ECN", unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN},
	{"USO", unix.TUN_F_USO4 | unix.TUN_F_USO6}, // Linux 6.2
}

const offloadPrefix = "offload "

// pausing is the feature that single traffic classes of a real host can be paused.
const pausing = "pause by class"

// tryFeatures makes all attempts in a temporary namespace.
func tryFeatures() (all []feature, err error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	defer ns.closeNamespace()
	return all, ns.runInside(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		defer h.Close()
		for _, a := range attempts {
			all = append(all, featureOf(a.name, a.try(h)))
		}
		for _, o := range offloads {
			all = append(all, featureOf(offloadPrefix+o.name, tryOffload(o.bits)))
		}
		return nil
	})
}

func featureOf(name string, err error) feature {
	if err != nil {
		return feature{name, reasonOf(err)}
	}
	return feature{Name: name}
}

func tryTAP(*netlink.Handle) error {
	fd, err := openTAP("t0", false)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// tryPausing makes a device with a queue for each traffic class.
func tryPausing(*netlink.Handle) error {
	err := netnslab.CheckSteering("t0")
	if errors.Is(err, unix.EPERM) {
		return unix.EPERM // the check says what fixes it
	}
	return err
}

func tryOffload(bits int) error {
	fd, err := openTAP("t0", true)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return setOffloads(fd, unix.TUN_F_CSUM|bits)
}

func tryLink(l netlink.Link) func(*netlink.Handle) error {
	return func(h *netlink.Handle) error { return h.LinkAdd(l) }
}

// findLoopback returns the index of the one device that every namespace has.
func findLoopback(h *netlink.Handle) (int, error) {
	l, err := h.LinkByName("lo")
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}

// tryQdisc tries a queueing discipline at the root of lo.
func tryQdisc(kind func(netlink.QdiscAttrs) netlink.Qdisc) func(*netlink.Handle) error {
	return func(h *netlink.Handle) error {
		index, err := findLoopback(h)
		if err != nil {
			return err
		}
		q := kind(netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})
		if err := h.QdiscAdd(q); err != nil {
			return err
		}
		return h.QdiscDel(q)
	}
}

// tryVLAN adds a VLAN to a TAP, since lo does not support VLANs.
func tryVLAN(h *netlink.Handle) error {
	fd, err := openTAP("t0", false)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	l, err := h.LinkByName("t0")
	if err != nil {
		return err
	}
	return h.LinkAdd(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "t0.7", ParentIndex: l.Attrs().Index}, VlanId: 7})
}

func tryDCTCP(*netlink.Handle) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "dctcp")
}

// featureChecks turns the results of the attempts into checks; in is nil if none was made.
func featureChecks(in *inside) (checks []Check) {
	if in == nil || len(in.Features) == 0 {
		return []Check{{
			Group: groupKernel, Name: "features", Verdict: Warn, Found: "not tested: no network namespace can be made",
			Means: "it is not known whether hosts can be made", Fix: "sudo weft doctor; in a container: run it with --cap-add SYS_ADMIN",
		}}
	}
	found := map[string]feature{}
	for _, f := range in.Features {
		found[f.Name] = f
	}
	for _, a := range attempts {
		c := Check{Group: groupKernel, Name: a.name, Verdict: OK, Found: "works"}
		if f, ok := found[a.name]; !ok || f.Error != "" {
			c.Verdict, c.Found, c.Means = a.absent, "does not work, "+f.Error, a.means
			c.Fix = fmt.Sprintf("modprobe %s; if there is no such module: a kernel with CONFIG_%s", a.module, a.setting)
			if strings.Contains(f.Error, unix.EACCES.Error()) || strings.Contains(f.Error, unix.EPERM.Error()) {
				c.Fix = "sudo weft doctor"
				if a.name == pausing {
					c.Fix = "sudo weft up; or sysctl -w kernel.unprivileged_bpf_disabled=0, which a kernel where it is 1 refuses"
				}
			}
		}
		checks = append(checks, c)
	}
	return append(checks, offloadCheck(found))
}

func offloadCheck(found map[string]feature) Check {
	if found[attempts[0].name].Error != "" {
		return Check{Group: groupKernel, Name: "TAP offloads", Verdict: Warn, Found: "not tested: no TAP device", Means: "it is not known whether streams can avoid a system call for each packet"}
	}
	var there, missing []string
	for _, o := range offloads {
		if f, ok := found[offloadPrefix+o.name]; ok && f.Error == "" {
			there = append(there, o.name)
		} else {
			missing = append(missing, o.name)
		}
	}
	c := Check{Group: groupKernel, Name: "TAP offloads", Verdict: OK, Found: joinNames(there)}
	switch {
	case len(there) == 0:
		c.Verdict, c.Means = Warn, "every packet costs two system calls, even in a stream"
	case len(missing) > 0:
		c.Means = "without " + joinNames(missing)
	}
	if len(missing) > 0 {
		c.Fix = "a newer kernel: USO came with 6.2"
	}
	return c
}
