package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// oldestMajor and oldestMinor are the version of the first kernel with epoll_pwait2, which
// the engine uses to sleep.
const oldestMajor, oldestMinor = 5, 11

func (m *machine) checkMachine() []Check {
	return []Check{m.kernelVersion(), m.checkProcessor(), m.checkHypervisor(), m.checkGovernor(), m.checkLoad(), m.clockSource()}
}

func (m *machine) kernelVersion() Check {
	c := Check{Group: groupMachine, Name: "kernel", Verdict: OK}
	r, err := m.release()
	if err != nil {
		c.Verdict, c.Found = Warn, err.Error()
		return c
	}
	c.Found = "Linux " + r
	if major, minor, ok := parseRelease(r); ok && (major < oldestMajor || major == oldestMajor && minor < oldestMinor) {
		c.Verdict = Bad
		c.Means = fmt.Sprintf("the engine sleeps with epoll_pwait2, which Linux has from %d.%d on", oldestMajor, oldestMinor)
		c.Fix = "install a newer kernel, then reboot"
	}
	return c
}

// parseRelease reads the version of a release such as "6.8.0-45-generic".
func parseRelease(r string) (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(r, "%d.%d", &major, &minor)
	return major, minor, n == 2
}

// countCores returns how many processors the kernel runs on.
func (m *machine) countCores() int {
	n := 0
	for line := range strings.Lines(m.readText("proc/cpuinfo")) {
		if key, _, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "processor" {
			n++
		}
	}
	return n
}

func (m *machine) checkProcessor() Check {
	model := m.readField("proc/cpuinfo", "model name")
	if model == "" {
		model = "model unknown"
	}
	n := m.countCores()
	c := Check{
		Group: groupMachine, Name: "processor", Verdict: OK, Found: fmt.Sprintf("%d cores, %s", n, model),
		Means: "programs that poll and never sleep, such as MPI's ranks, need one each: two on one core exchange messages only once per time slice, 4 ms or more (mpirun: --bind-to none; docs/time.md)",
	}
	if n == 1 {
		c.Verdict, c.Found = Warn, "1 core, "+model
		c.Means = "the engine and the programs in the hosts take turns on it, and packets wait"
		c.Fix = "give the machine at least 2 cores"
	}
	return c
}

func (m *machine) checkHypervisor() Check {
	c := Check{Group: groupMachine, Name: "hypervisor", Verdict: OK, Found: "none"}
	if slices.Contains(strings.Fields(m.readField("proc/cpuinfo", "flags")), "hypervisor") {
		c.Found = "a virtual machine"
		c.Means = "waking a sleeping thread takes about 30 to 50 us longer; engine: {spin: 50us} in the lab file avoids most of it"
	}
	return c
}

func (m *machine) checkGovernor() Check {
	g := m.readText("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	c := Check{Group: groupMachine, Name: "frequency governor", Verdict: OK, Found: g}
	switch g {
	case "":
		c.Found = "none, the kernel does not set the frequency"
	case "performance":
	default:
		c.Verdict = Warn
		c.Means = "the processor slows down between packets, and the engine wakes on a slow one"
		c.Fix = "cpupower frequency-set -g performance"
	}
	return c
}

// busyLoad is the load, as a share of the cores, above which other programs
// disturb a measurement.
const busyLoad = 0.5

// checkLoad reads /proc/loadavg (proc(5)): means of one, five and fifteen minutes,
// then the number of running threads, including this one, and of all threads.
func (m *machine) checkLoad() Check {
	c := Check{Group: groupMachine, Name: "load", Verdict: OK, Found: "unknown"}
	var mean, mean5, mean15 float64
	var running int
	if n, _ := fmt.Sscanf(m.readText("proc/loadavg"), "%f %f %f %d", &mean, &mean5, &mean15, &running); n == 4 {
		others := max(running-1, 0)
		c.Found = fmt.Sprintf("%.2f in the last minute; other running threads: %d", mean, others)
		if cores := m.countCores(); mean > busyLoad*float64(cores) || others >= cores {
			c.Verdict = Warn
			c.Means = "the machine is busy: the figures below show only its spare capacity, and labs would get no more"
			c.Fix = "end other programs, see top, and run weft doctor again"
		}
	}
	return c
}

// clockSources are those that the vDSO reads without a system call
// (arch/x86/include/asm/vdso/clocksource.h, drivers/clocksource).
var clockSources = []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"}

func (m *machine) clockSource() Check {
	const dir = "sys/devices/system/clocksource/clocksource0/"
	s := m.readText(dir + "current_clocksource")
	c := Check{Group: groupMachine, Name: "clock source", Verdict: OK, Found: s}
	switch {
	case s == "":
		c.Found = "unknown"
	case !slices.Contains(clockSources, s):
		c.Verdict = Warn
		c.Means = "reading the clock is a system call here, several in each turn of the engine"
		if slices.Contains(strings.Fields(m.readText(dir+"available_clocksource")), "tsc") {
			c.Fix = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
		} else {
			c.Fix = "boot with tsc=reliable if the processor's TSC is sound"
		}
	}
	return c
}
