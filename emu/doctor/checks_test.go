package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

const limits = `Limit                     Soft Limit           Hard Limit           Units     
Max processes             96365                96365                processes 
Max open files            20000                524288               files     
Max nice priority         0                    0                    
Max realtime priority     0                    0                    
`

// files returns the files of a good machine; each test changes a few of them. "" means no file.
func files(changes map[string]string) fstest.MapFS {
	all := map[string]string{
		"proc/cpuinfo":                                                      "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu tsc\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\nflags\t\t: fpu tsc\n",
		"proc/loadavg":                                                      "0.35 0.30 0.25 1/103 7000\n",
		"proc/meminfo":                                                      "MemTotal:       24684092 kB\nMemFree:        22642536 kB\nMemAvailable:   24152600 kB\n",
		"proc/self/limits":                                                  limits,
		"proc/self/status":                                                  "Name:\tweft\nCapInh:\t0000000000000000\nCapEff:\t000001fffeffffff\n",
		"proc/sys/kernel/pid_max":                                           "32768\n",
		"proc/sys/kernel/sched_rt_runtime_us":                               "950000\n",
		"proc/sys/kernel/threads-max":                                       "192730\n",
		"proc/sys/user/max_net_namespaces":                                  "96365\n",
		"proc/sys/user/max_user_namespaces":                                 "96365\n",
		"proc/sys/net/ipv4/tcp_congestion_control":                          "cubic\n",
		"proc/sys/net/ipv4/tcp_available_congestion_control":                "reno cubic\n",
		"proc/sys/net/ipv4/tcp_allowed_congestion_control":                  "reno cubic\n",
		"proc/sys/net/ipv4/neigh/default/gc_thresh3":                        "1024\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource":   "tsc\n",
		"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet \n",
		"sys/module/rdma_rxe/refcnt":                                        "0\n",
		"dev/net/tun":                                                       " ",
		"dev/fuse":                                                          " ",
		"proc/sys/vm/max_map_count":                                         "65530\n",
	}
	for path, text := range changes {
		all[path] = text
	}
	m := fstest.MapFS{}
	for path, text := range all {
		if text != "" {
			m[path] = &fstest.MapFile{Data: []byte(text), Mode: 0o666}
		}
	}
	return m
}

// good returns a machine without problems.
func good() *machine {
	ok := func() error { return nil }
	return &machine{
		fs: files(nil), release: func() (string, error) { return "6.8.0-45-generic", nil },
		open: func(string) error { return nil }, fifo: ok, bpf: ok, uring: ok, tempDir: "/tmp",
		lookPath: func(string) (string, error) { return "/usr/bin/x", nil },
		qemu:     func() (string, error) { return "/usr/bin/qemu-system-x86_64", nil },
		image:    func() (string, error) { return "/root/.cache/weft/vm/1", nil },
		free:     func(string) (units.Bytes, error) { return 83 * units.GB, nil },
	}
}

// named returns the check of that name.
func named(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q", name)
	}
	return checks[i]
}

// TestChecks_GoodMachineIsOK: no warnings, and every check is complete.
func TestChecks_GoodMachineIsOK(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range good().runChecks() {
		if c.Verdict != OK || c.Found == "" || c.Found == "unknown" || !slices.Contains(groups, c.Group) || seen[c.Name] {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
	}
}

// TestChecks_UnknownIsNoFailure: without /proc and /sys nothing is known, which is no reason
// to fail.
func TestChecks_UnknownIsNoFailure(t *testing.T) {
	m := good()
	m.fs = fstest.MapFS{}
	for _, c := range m.runChecks() {
		if (c.Verdict == Bad) != (c.Name == "/dev/net/tun") {
			t.Errorf("%+v", c)
		}
	}
}

// TestChecks_EachProblemIsFound changes one thing at a time.
func TestChecks_EachProblemIsFound(t *testing.T) {
	refuse := func() error { return unix.EPERM }
	set := func(path, text string) func(*machine) {
		return func(m *machine) { m.fs = files(map[string]string{path: text}) }
	}
	linux := func(release string) func(*machine) {
		return func(m *machine) { m.release = func() (string, error) { return release, nil } }
	}
	controls := func(standard, available, allowed string) func(*machine) {
		const dir = "proc/sys/net/ipv4/tcp_"
		return func(m *machine) {
			m.fs = files(map[string]string{
				dir + "congestion_control": standard + "\n", dir + "available_congestion_control": available + "\n", dir + "allowed_congestion_control": allowed + "\n",
			})
		}
	}
	deny := func(m *machine) {
		m.open = func(path string) error { return &fs.PathError{Op: "open", Path: path, Err: unix.EACCES} }
	}
	for _, c := range []struct {
		name    string
		change  func(*machine)
		verdict Verdict
		found   string // contains
		fix     string // contains
	}{
		{"kernel", linux("5.10.0-8-amd64"), Bad, "Linux 5.10.0-8-amd64", "newer kernel"},
		{"kernel", linux("4.19.0"), Bad, "4.19", "newer kernel"},
		{"kernel", linux("5.11.0"), OK, "5.11", ""},
		{"kernel", linux("6.0"), OK, "6.0", ""},
		{"kernel", linux("strange"), OK, "strange", ""},
		{"kernel", func(m *machine) { m.release = func() (string, error) { return "", unix.EFAULT } }, Warn, "bad address", ""},
		{"processor", func(*machine) {}, OK, "2 cores, AMD EPYC", ""},
		{"processor", set("proc/cpuinfo", "processor : 0\n"), Warn, "1 core, model unknown", "2 cores"},
		{"hypervisor", set("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor tsc\n"), OK, "a virtual machine", ""},
		{"hypervisor", set("proc/cpuinfo", "processor : 0\nflags : fpu nohypervisor\n"), OK, "none", ""},
		{"frequency governor", set("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"), OK, "performance", ""},
		{"frequency governor", set("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"), Warn, "powersave", "cpupower frequency-set"},
		{"load", set("proc/loadavg", "1.00 9.00 9.00 2/103 7000\n"), OK, "1.00 in the last minute; other running threads: 1", ""},
		{"load", set("proc/loadavg", "1.01 0.00 0.00 1/103 7000\n"), Warn, "1.01", "end other programs"},
		{"load", set("proc/loadavg", "0.00 0.00 0.00 3/103 7000\n"), Warn, "threads: 2", "end other programs"},
		{"load", set("proc/loadavg", "nonsense\n"), OK, "unknown", ""},
		{"clock source", set("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"), Warn, "hpet", "echo tsc"},
		{"clock source", func(m *machine) {
			m.fs = files(map[string]string{"sys/devices/system/clocksource/clocksource0/current_clocksource": "acpi_pm\n", "sys/devices/system/clocksource/clocksource0/available_clocksource": "acpi_pm\n"})
		}, Warn, "acpi_pm", "tsc=reliable"},
		{"clock source", set("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"), OK, "kvm-clock", ""},

		{"capabilities", func(*machine) {}, OK, "CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_NICE", ""},
		{"capabilities", set("proc/self/status", "CapEff:\t0000000000001000\n"), Warn, "CAP_NET_ADMIN; missing: CAP_SYS_ADMIN", "sudo"},
		{"capabilities", set("proc/self/status", "CapEff:\t0000000000000000\n"), Warn, "none; missing: CAP_NET_ADMIN, CAP_SYS_ADMIN", "sudo"},
		{"capabilities", func(m *machine) {
			m.fs = files(map[string]string{"proc/self/status": "CapEff:\t0000000000000000\n", "proc/sys/user/max_user_namespaces": "0\n"})
		}, Bad, "none; missing: CAP_NET_ADMIN, CAP_SYS_ADMIN", "sudo"},
		{"capabilities", set("proc/self/status", "CapEff:\t0000000000201000\n"), OK, "CAP_NET_ADMIN, CAP_SYS_ADMIN", ""},
		{"SCHED_FIFO", func(m *machine) { m.fifo = refuse }, Warn, "refused; rtprio limit 0", "cap_sys_nice"},
		{"real-time share", set("proc/sys/kernel/sched_rt_runtime_us", "0\n"), Warn, "0", "sysctl -w kernel.sched_rt_runtime_us=950000"},
		{"real-time share", set("proc/sys/kernel/sched_rt_runtime_us", "-1\n"), OK, "not limited", ""},
		{"user namespaces", set("proc/sys/user/max_user_namespaces", "0\n"), OK, "user.max_user_namespaces=0", ""}, // root needs none
		{"user namespaces", func(m *machine) {
			m.fs = files(map[string]string{"proc/self/status": "CapEff:\t0\n", "proc/sys/kernel/unprivileged_userns_clone": "0\n"})
		}, Warn, "kernel.unprivileged_userns_clone=0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user namespaces", func(m *machine) {
			m.fs = files(map[string]string{"proc/self/status": "CapEff:\t0\n", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"})
		}, Warn, "kernel.apparmor_restrict_unprivileged_userns=1", "userns=0"},
		{"/dev/net/tun", set("dev/net/tun", ""), Bad, "missing", "modprobe tun"},
		{"/dev/net/tun", func(*machine) {}, OK, "present, mode 0666", ""},
		{"/dev/net/tun", deny, Bad, "mode 0666, cannot be opened, permission denied", "chmod"},

		{"congestion control", func(*machine) {}, OK, "cubic by default, of reno, cubic", ""},
		{"congestion control", set("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"), Warn, "bbr by default", "tcp_congestion_control=cubic"},
		{"congestion control", func(m *machine) {
			m.fs = files(map[string]string{"proc/sys/net/ipv4/tcp_congestion_control": "bbr\n", "proc/sys/net/ipv4/tcp_available_congestion_control": "reno bbr\n"})
		}, Warn, "bbr by default", "sysctl -w net.ipv4.tcp_congestion_control=reno; or"},
		// A host of a lab accepts only what is allowed there.
		{"congestion control", controls("bbr", "reno bbr cubic", "reno bbr"), Warn, "bbr by default", "sysctls: {net.ipv4.tcp_congestion_control: reno}"},
		{"congestion control", controls("bbr", "reno bbr cubic", "reno bbr"), Warn, "bbr by default", "sysctl -w net.ipv4.tcp_congestion_control=cubic; or"},
		{"congestion control", controls("bbr", "reno bbr cubic", "reno bbr cubic"), Warn, "bbr by default", "sysctls: {net.ipv4.tcp_congestion_control: cubic}"},
		{"congestion control", controls("bbr", "reno bbr", "bbr"), Warn, "bbr by default", "sysctl -w net.ipv4.tcp_congestion_control=reno"},
		{"congestion control", controls("bbr", "reno bbr vegas", "bbr vegas"), Warn, "bbr by default", "sysctls: {net.ipv4.tcp_congestion_control: vegas}"},
		{"/dev/fuse", set("dev/fuse", ""), Warn, "missing", "modprobe fuse"},
		{"/dev/fuse", func(*machine) {}, OK, "there", ""},
		{"/dev/fuse", deny, Warn, "cannot be opened, permission denied", "chmod"},
		{"vm.max_map_count", set("proc/sys/vm/max_map_count", "4000"), Warn, "4000", "vm.max_map_count=65530"},
		{"vm.max_map_count", set("proc/sys/vm/max_map_count", "65530"), OK, "for up to 16382", ""},
		{"vm.max_map_count", set("proc/sys/vm/max_map_count", ""), OK, "unknown", ""},
		{"rdma_rxe", set("sys/module/rdma_rxe/refcnt", ""), Warn, "missing", "CONFIG_RDMA_RXE"},
		{"rdma_rxe", func(m *machine) {
			m.fs = files(map[string]string{"sys/module/rdma_rxe/refcnt": "", "lib/modules/6.8.0-45-generic/modules.dep": "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.zst: kernel/net/x.ko.zst\n"})
		}, OK, "there", ""},
		{"rdma_rxe", func(m *machine) {
			m.fs = files(map[string]string{"sys/module/rdma_rxe/refcnt": "", "lib/modules/6.1.0/modules.dep": "kernel/rdma_rxe.ko: \n"})
		}, Warn, "missing", ""}, // of another kernel
		{"/dev/kvm", deny, OK, "cannot be opened, permission denied", "kvm"},
		{"BPF", func(m *machine) { m.bpf = refuse }, OK, "refused, operation not permitted", ""},
		{"io_uring", func(m *machine) { m.uring = refuse }, OK, "refused, operation not permitted", ""},

		{"open files", set("proc/self/limits", strings.Replace(limits, "20000 ", "1023  ", 1)), Warn, "1023", "ulimit -n"},
		{"open files", set("proc/self/limits", strings.Replace(limits, "20000    ", "unlimited", 1)), OK, "unlimited", ""},
		{"network namespaces", set("proc/sys/user/max_net_namespaces", "0\n"), Bad, "0", "sysctl -w user.max_net_namespaces"},
		{"processes", func(*machine) {}, OK, "32768 threads in all", ""},
		{"memory", func(*machine) {}, OK, "25.3 GB, of which 24.7 GB available", ""},
		{"memory", set("proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 500000 kB\n"), Warn, "2.05 GB, of which 512 MB", "add memory"},
		{"ARP entries", func(*machine) {}, OK, "1024 in all hosts together", "gc_thresh3=100000"},
		{"disk", func(*machine) {}, OK, "83 GB free in /tmp", ""},
		{"disk", func(m *machine) { m.free = func(string) (units.Bytes, error) { return 5 * units.MB, nil } }, Warn, "5 MB free", "TMPDIR"},
		{"disk", func(m *machine) { m.free = func(string) (units.Bytes, error) { return 0, unix.ENOENT } }, Warn, "/tmp: no such file", ""},

		{"present", func(m *machine) {
			m.lookPath = func(p string) (string, error) {
				if p == "ping" {
					return p, nil
				}
				return "", exec.ErrNotFound
			}
		}, OK, "ping", ""},
		{"not present", func(m *machine) { m.lookPath = func(string) (string, error) { return "", exec.ErrNotFound } }, OK, "ip, ping, iperf3, tcpdump", ""},
		{"not present", func(*machine) {}, OK, "none", ""},
		{"virtual machines", func(*machine) {}, OK, "QEMU with the image /root/.cache/weft/vm/1", ""},
		{"virtual machines", func(m *machine) { m.qemu = func() (string, error) { return "", exec.ErrNotFound } }, Warn, "no QEMU", "qemu-system-x86"},
		{"virtual machines", func(m *machine) { m.image = func() (string, error) { return "", fs.ErrNotExist } }, Warn, "QEMU without", "scripts/vm-image.sh"},
	} {
		m := good()
		c.change(m)
		got := named(t, m.runChecks(), c.name)
		if got.Verdict != c.verdict || !strings.Contains(got.Found, c.found) || !strings.Contains(got.Fix, c.fix) {
			t.Errorf("%s: %+v\nwant %s, %q found, fix %q", c.name, got, c.verdict, c.found, c.fix)
		}
		if got.Verdict != OK && got.Means == "" && !strings.Contains(got.Found, "no such file") && !strings.Contains(got.Found, "bad address") {
			t.Errorf("%s does not say what it means: %+v", c.name, got)
		}
	}
}

// TestFeatures_AttemptsBecomeVerdicts: attempts become verdicts; the lack of attempts is reported.
func TestFeatures_AttemptsBecomeVerdicts(t *testing.T) {
	all := func(errs map[string]string) *inside {
		in := &inside{}
		for _, a := range attempts {
			in.Features = append(in.Features, feature{a.name, errs[a.name]})
		}
		for _, o := range offloads {
			in.Features = append(in.Features, feature{offloadPrefix + o.name, errs[o.name]})
		}
		return in
	}
	for _, c := range featureChecks(all(nil)) {
		if c.Verdict != OK || c.Found == "" {
			t.Errorf("%+v", c)
		}
	}
	const gone = "no such file or directory"
	for _, c := range []struct {
		errs    map[string]string
		name    string
		verdict Verdict
		found   string
		fix     string
	}{
		{map[string]string{"TAP device": gone}, "TAP device", Bad, gone, "modprobe tun"},
		{map[string]string{"TAP device": "open: permission denied"}, "TAP device", Bad, "permission denied", "sudo"},
		{map[string]string{"TAP device": gone}, "TAP offloads", Warn, "not tested", ""},
		{map[string]string{"tbf": gone}, "tbf", Bad, gone, "CONFIG_NET_SCH_TBF"},
		{map[string]string{pausing: "invalid argument"}, pausing, Warn, "invalid argument", "CONFIG_BPF_SYSCALL"},
		{map[string]string{pausing: "BPF: operation not permitted"}, pausing, Warn, "not permitted", "kernel.unprivileged_bpf_disabled=0"},
		{map[string]string{"DCTCP": gone}, "DCTCP", Warn, gone, "modprobe tcp_dctcp"},
		{map[string]string{"USO": "invalid argument"}, "TAP offloads", OK, "TSO4, TSO6, TSO_ECN", "6.2"},
		{map[string]string{"TSO4": gone, "TSO6": gone, "TSO_ECN": gone, "USO": gone}, "TAP offloads", Warn, "none", ""},
	} {
		got := named(t, featureChecks(all(c.errs)), c.name)
		if got.Verdict != c.verdict || !strings.Contains(got.Found, c.found) || !strings.Contains(got.Fix, c.fix) {
			t.Errorf("%v: %+v, want %s", c.errs, got, c.verdict)
		}
	}
	for _, in := range []*inside{nil, {}} {
		if got := featureChecks(in); len(got) != 1 || got[0].Verdict != Warn || got[0].Fix == "" {
			t.Errorf("nothing tried: %+v", got)
		}
	}
}

func TestParseRelease_ReadsAllForms(t *testing.T) {
	for s, want := range map[string]string{
		"6.8.0-45-generic": "6 8 true", "5.11": "5 11 true", "6.18.44-fc-v657": "6 18 true", "7": "7 0 false", "": "0 0 false", "x.y": "0 0 false",
	} {
		major, minor, ok := parseRelease(s)
		if got := fmt.Sprint(major, minor, ok); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

// TestRoom_ScarcestResourceLimitsHosts: the scarcest resource limits the number of hosts.
func TestRoom_ScarcestResourceLimitsHosts(t *testing.T) {
	for _, c := range []struct {
		path, text string
		hosts      int
		lack       string
	}{
		{"dev/x", "", 4996, "open files"},
		{"proc/meminfo", "MemAvailable: 1536 kB\n", 2, "memory"},
		{"proc/sys/user/max_net_namespaces", "7\n", 7, "namespaces"},
		{"proc/sys/user/max_pid_namespaces", "5\n", 5, "namespaces"},
		{"proc/self/limits", "Max open files 3 3 files\n", 0, "open files"},
	} {
		m := good()
		m.fs = files(map[string]string{c.path: c.text})
		if hosts, lack := m.measureRoom().fittingHosts(); hosts != c.hosts || lack != c.lack {
			t.Errorf("%s: %d hosts for lack of %s, want %d, %s", c.path, hosts, lack, c.hosts, c.lack)
		}
	}
}

func TestReason_IsWithoutPathAndCall(t *testing.T) {
	if got := reasonOf(fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "/a", Err: unix.EACCES})); got != "permission denied" {
		t.Error(got)
	}
	if got := reasonOf(errors.New("y")); got != "y" {
		t.Error(got)
	}
}
