package doctor

import (
	"fmt"
	"slices"
	"strings"
)

func (m *machine) checkKernel() []Check {
	return []Check{m.congestionControl(), m.rdma(), m.kvm(), m.programs()}
}

func (m *machine) congestionControl() Check {
	available := strings.Fields(m.read("proc/sys/net/ipv4/tcp_available_congestion_control"))
	standard := m.read("proc/sys/net/ipv4/tcp_congestion_control")
	c := Check{Group: groupKernel, Name: "congestion control", Verdict: OK, Found: fmt.Sprintf("%s by default, of %s", standard, list(available))}
	switch {
	case standard == "":
		c.Found = "unknown"
	case strings.HasPrefix(standard, "bbr"):
		other := "reno"
		if slices.Contains(available, "cubic") {
			other = "cubic"
		}
		c.Verdict = Warn
		c.Means = "bbr paces with a timer for every packet, also on a socket that has since changed to another; the timers run in the time of the engine"
		c.Mend = fmt.Sprintf("sysctl -w net.ipv4.tcp_congestion_control=%s; or in the lab file, for its hosts: sysctls: {net.ipv4.tcp_congestion_control: %[1]s}", other)
	}
	return c
}

// hasModule tells whether a module is loaded, built in, or on the disk for
// this kernel (modules.dep, modules.builtin: depmod(8)).
func (m *machine) hasModule(name string) bool {
	if m.exists("sys/module/" + name) {
		return true
	}
	r, err := m.release()
	if err != nil {
		return false
	}
	for _, index := range []string{"modules.dep", "modules.builtin"} {
		if strings.Contains(m.read("lib/modules/"+r+"/"+index), "/"+name+".ko") {
			return true
		}
	}
	return false
}

func (m *machine) rdma() Check {
	c := Check{Group: groupKernel, Name: "rdma_rxe", Verdict: OK, Found: "there"}
	if !m.hasModule("rdma_rxe") {
		c.Verdict, c.Found = Warn, "not there"
		c.Means = "hosts have no RDMA of the kernel's (soft RoCE)"
		c.Mend = "install the kernel's extra modules (Ubuntu: linux-modules-extra), or a kernel with CONFIG_RDMA_RXE"
	}
	return c
}

func (m *machine) kvm() Check {
	c := Check{Group: groupKernel, Name: "/dev/kvm", Verdict: OK, Found: "can be opened"}
	if err := m.open("/dev/kvm"); err != nil {
		c.Found = "cannot be opened, " + reason(err)
		c.Means = "virtual machines in a host run without the processor's help, slowly"
		c.Mend = "sudo usermod -aG kvm $USER, then log in again"
	}
	return c
}

func (m *machine) programs() Check {
	c := Check{Group: groupKernel, Name: "BPF", Verdict: OK, Found: "programs can be loaded"}
	if err := m.bpf(); err != nil {
		c.Found = "refused, " + err.Error()
		c.Means = "programs in hosts that load BPF will not run"
	}
	return c
}
