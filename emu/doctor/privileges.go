package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (m *machine) checkPrivileges() []Check {
	return []Check{m.checkCapabilities(), m.checkRealtime(), m.checkRTBandwidth(), m.userNamespaces(), m.checkTUN()}
}

// hasCapability reports whether a capability is in the effective set, according to
// /proc/self/status (proc(5): CapEff, hexadecimal).
func (m *machine) hasCapability(capability int) bool {
	set, err := strconv.ParseUint(m.readField("proc/self/status", "CapEff"), 16, 64)
	return err == nil && set&(1<<capability) != 0
}

func (m *machine) checkCapabilities() Check {
	var there, missing []string
	for _, c := range []struct {
		bit  int
		name string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}} {
		if m.hasCapability(c.bit) {
			there = append(there, c.name)
		} else {
			missing = append(missing, c.name)
		}
	}
	nice := "CAP_SYS_NICE" // useful, not required: see realtime
	if m.hasCapability(unix.CAP_SYS_NICE) {
		there = append(there, nice)
	}
	c := Check{Group: groupPrivileges, Name: "capabilities", Verdict: OK, Found: joinNames(there)}
	if len(missing) > 0 {
		c.Verdict = Warn
		c.Found += "; missing: " + joinNames(missing)
		c.Means = "weft up makes a user namespace for the lab instead, which has limits: docs/commands.md, Without root"
		c.Fix = "sudo weft doctor; in a container: run it with --cap-add NET_ADMIN --cap-add SYS_ADMIN"
		if m.forbidsUsers() != nil {
			c.Verdict = Bad
			c.Means = "weft up makes network namespaces and devices with them, and this machine does not let ordinary users make a user namespace; weft sim needs none"
		}
	}
	return c
}

// readLimit returns the soft limit of this name in /proc/self/limits, "" if there
// is none.
func (m *machine) readLimit(name string) string {
	for line := range strings.Lines(m.readText("proc/self/limits")) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				return f[0]
			}
		}
	}
	return ""
}

func (m *machine) checkRealtime() Check {
	c := Check{Group: groupPrivileges, Name: "SCHED_FIFO", Verdict: OK, Found: "allowed"}
	if err := m.fifo(); err != nil {
		c.Verdict = Warn
		c.Found = fmt.Sprintf("refused; rtprio limit %s", m.readLimit("Max realtime priority"))
		c.Means = "the engine's thread waits behind other programs, and packets are late"
		c.Fix = "run as root, or: setcap cap_sys_nice+ep weft; or ulimit -r 1; in a container: --cap-add SYS_NICE"
	}
	return c
}

// checkRTBandwidth checks how much of each second real-time threads may use on each
// processor (Documentation/scheduler/sched-rt-group.rst).
func (m *machine) checkRTBandwidth() Check {
	const path = "proc/sys/kernel/sched_rt_runtime_us"
	c := Check{Group: groupPrivileges, Name: "real-time share", Verdict: OK, Found: "unknown"}
	switch us, ok := m.readNumber(path); {
	case !ok:
	case us == 0:
		c.Verdict, c.Found = Warn, "0, no real-time thread runs"
		c.Means = "the engine's thread runs without SCHED_FIFO"
		c.Fix = "sysctl -w kernel.sched_rt_runtime_us=950000"
	case us < 0:
		c.Found = "not limited"
	default:
		c.Found = fmt.Sprintf("%d us of each period", us)
		c.Means = "the engine leaves SCHED_FIFO before it uses that up"
	}
	return c
}

func (m *machine) userNamespaces() Check {
	c := Check{Group: groupPrivileges, Name: "user namespaces", Verdict: OK, Found: "allowed to ordinary users"}
	if f := m.forbidsUsers(); f != nil {
		c.Found = fmt.Sprintf("not for ordinary users, %s=%d", f.name, f.value)
		if !m.hasCapability(unix.CAP_SYS_ADMIN) {
			c.Verdict = Warn
			c.Means = "without root, devices cannot be tested and measured"
			c.Fix = fmt.Sprintf("sudo sysctl -w %s=%s; or sudo weft doctor", f.name, f.good)
		}
	}
	return c
}

// forbidding is a kernel setting that keeps ordinary users from creating user
// namespaces, its value, and a value that allows it.
type forbidding struct {
	name  string
	value int64
	good  string
}

// forbidsUsers returns the setting that forbids user namespaces to ordinary
// users, nil if none does.
func (m *machine) forbidsUsers() *forbidding {
	for _, s := range []struct {
		name string
		bad  func(n int64) bool
		good string
	}{
		{"kernel.unprivileged_userns_clone", func(n int64) bool { return n == 0 }, "1"},
		{"user.max_user_namespaces", func(n int64) bool { return n == 0 }, "10000"},
		{"kernel.apparmor_restrict_unprivileged_userns", func(n int64) bool { return n != 0 }, "0"},
	} {
		if n, ok := m.readNumber("proc/sys/" + strings.ReplaceAll(s.name, ".", "/")); ok && s.bad(n) {
			return &forbidding{s.name, n, s.good}
		}
	}
	return nil
}

func (m *machine) checkTUN() Check {
	const path = "/dev/net/tun"
	c := Check{Group: groupPrivileges, Name: path, Verdict: OK}
	info, err := fs.Stat(m.fs, path[1:])
	if err != nil {
		c.Verdict, c.Found = Bad, "missing"
		c.Means = "every real host has a TUN or TAP device, made through it"
		c.Fix = "modprobe tun; or mkdir -p /dev/net && mknod /dev/net/tun c 10 200; in a container: --device /dev/net/tun"
		return c
	}
	c.Found = fmt.Sprintf("present, mode %#o", info.Mode().Perm())
	if err := m.open(path); err != nil {
		c.Verdict = Bad
		c.Found += ", cannot be opened, " + reasonOf(err)
		c.Means = "every real host has a TUN or TAP device, made through it"
		c.Fix = "run as root, or sudo chmod 0666 /dev/net/tun; modprobe tun if the kernel has it as a module; in a container: --device /dev/net/tun"
	}
	return c
}
