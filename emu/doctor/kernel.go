package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

func (m *machine) checkKernel() []Check {
	return []Check{m.congestionControl(), m.checkRDMA(), m.checkFUSE(), m.mappings(), m.checkKVM(), m.checkPrograms(), m.checkRing()}
}

func (m *machine) congestionControl() Check {
	available := strings.Fields(m.readText("proc/sys/net/ipv4/tcp_available_congestion_control"))
	// A network namespace accepts only these and the machine's default
	// (tcp_set_default_congestion_control, net/ipv4/tcp_cong.c).
	allowed := strings.Fields(m.readText("proc/sys/net/ipv4/tcp_allowed_congestion_control"))
	standard := m.readText("proc/sys/net/ipv4/tcp_congestion_control")
	c := Check{Group: groupKernel, Name: "congestion control", Verdict: OK, Found: fmt.Sprintf("%s by default, of %s", standard, joinNames(available))}
	switch {
	case standard == "":
		c.Found = "unknown"
	case isBBR(standard):
		c.Verdict = Warn
		c.Means = "bbr paces with a timer for every packet, also on a socket that has since changed to another; the timers run in the time of the engine"
		// Reno is part of every kernel.
		c.Fix = "sysctl -w net.ipv4.tcp_congestion_control=" + cmp.Or(withoutBBR(available), "reno")
		if inHosts := withoutBBR(allowed); inHosts != "" {
			c.Fix += fmt.Sprintf("; or in the lab file, for its hosts: sysctls: {net.ipv4.tcp_congestion_control: %s}", inHosts)
		}
	}
	return c
}

func isBBR(control string) bool { return strings.HasPrefix(control, "bbr") }

// withoutBBR chooses a congestion control that does not pace: cubic, Linux's
// default, if available. It returns "" if there is none.
func withoutBBR(controls []string) string {
	if slices.Contains(controls, "cubic") {
		return "cubic"
	}
	if i := slices.IndexFunc(controls, func(c string) bool { return !isBBR(c) }); i >= 0 {
		return controls[i]
	}
	return ""
}

// hasModule reports whether a module is loaded, built in, or on disk for this
// kernel (modules.dep, modules.builtin: depmod(8)).
func (m *machine) hasModule(name string) bool {
	if m.fileExists("sys/module/" + name) {
		return true
	}
	r, err := m.release()
	if err != nil {
		return false
	}
	for _, index := range []string{"modules.dep", "modules.builtin"} {
		if strings.Contains(m.readText("lib/modules/"+r+"/"+index), "/"+name+".ko") {
			return true
		}
	}
	return false
}

// checkFUSE checks FUSE, which provides the files of NICs' counters (netns-lab/livefs).
func (m *machine) checkFUSE() Check {
	const path = "/dev/fuse"
	c := Check{Group: groupKernel, Name: path, Verdict: OK, Found: "there"}
	var wrong string
	if _, err := fs.Stat(m.fs, path[1:]); err != nil {
		wrong = "missing"
	} else if err := m.open(path); err != nil {
		wrong = "cannot be opened, " + reasonOf(err)
	}
	if wrong != "" {
		c.Verdict, c.Found = Warn, wrong
		c.Means = "RDMA programs find no counters of their NICs in /sys/class/infiniband (weft nic has them)"
		c.Fix = "modprobe fuse, and sudo chmod 0666 /dev/fuse for labs without root; in a container: --device /dev/fuse"
	}
	return c
}

// leastMappings is the kernel's default of vm.max_map_count: with it one RDMA program can have
// some 16,000 queue pairs and completion queues.
const leastMappings = 65530

// mappings checks how many mappings a process may have: each queue of an RDMA program takes one of
// the program's, and one of the lab's.
func (m *machine) mappings() Check {
	const file = "proc/sys/vm/max_map_count"
	c := Check{Group: groupKernel, Name: "vm.max_map_count", Verdict: OK, Found: m.readText(file)}
	n, err := strconv.Atoi(c.Found)
	switch {
	case err != nil:
		c.Found = "unknown"
	case n < leastMappings:
		c.Verdict = Warn
		c.Means = fmt.Sprintf("an RDMA program can have at most %d queue pairs, completion queues and shared receive queues", n/4)
		c.Fix = fmt.Sprintf("sysctl -w vm.max_map_count=%d, or more; then restart the lab", leastMappings)
	default:
		c.Found += fmt.Sprintf(", for up to %d queue pairs, completion queues and shared receive queues of an RDMA program", n/4)
	}
	return c
}

func (m *machine) checkRDMA() Check {
	c := Check{Group: groupKernel, Name: "rdma_rxe", Verdict: OK, Found: "there"}
	if !m.hasModule("rdma_rxe") {
		c.Verdict, c.Found = Warn, "missing"
		c.Means = "hosts have no kernel RDMA (soft RoCE)"
		c.Fix = "install the kernel's extra modules (Ubuntu: linux-modules-extra), or a kernel with CONFIG_RDMA_RXE"
	}
	return c
}

func (m *machine) checkKVM() Check {
	c := Check{Group: groupKernel, Name: "/dev/kvm", Verdict: OK, Found: "can be opened"}
	if err := m.open("/dev/kvm"); err != nil {
		c.Found = "cannot be opened, " + reasonOf(err)
		c.Means = "virtual machines in a host run slowly, without hardware acceleration"
		c.Fix = "sudo usermod -aG kvm $USER, then log in again"
	}
	return c
}

func (m *machine) checkPrograms() Check {
	c := Check{Group: groupKernel, Name: "BPF", Verdict: OK, Found: "programs can be loaded"}
	if err := m.bpf(); err != nil {
		c.Found = "refused, " + err.Error()
		c.Means = "programs in hosts that load BPF will not run"
	}
	return c
}

// checkRing checks whether an engine can read and write devices with io_uring.
func (m *machine) checkRing() Check {
	c := Check{Group: groupKernel, Name: "io_uring", Verdict: OK, Found: "can be made"}
	if err := m.uring(); err != nil {
		c.Found = "refused, " + err.Error()
		c.Means = "each packet of hosts with offload: off costs system calls of its own, and one TCP stream carries less"
	}
	return c
}
