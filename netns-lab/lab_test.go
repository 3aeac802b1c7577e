package netnslab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestClose_RemovesWhatCreateMade(t *testing.T) {
	needRoot(t)
	fds, devices := openFiles(t), interfaces(t)
	l := makeLab(t, hostsN(4)...)
	if n := len(l.Devices()); n != 4 {
		t.Errorf("%d devices, want 4", n)
	}
	for i, d := range l.Devices() {
		if want := hostN(i+1, TAP, 0).Name; d.Host != want || d.Name != "eth0" || len(d.MAC) != 6 {
			t.Errorf("device %d is %s:%s with MAC %s, want %s:eth0 with one", i, d.Host, d.Name, d.MAC, want)
		}
	}
	if got := residue(l.Info().Name); len(got) != 4+4+1 {
		t.Errorf("while it runs there are %v", got)
	}
	if info, err := FindLab(l.Info().Name); err != nil || !info.Running || info.PID != os.Getpid() || info.File != "lab.yaml" || len(info.Hosts) != 4 || info.Dir != l.Dir() {
		t.Errorf("Find says %+v, %v", info, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if left := residue(l.Info().Name); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if now := openFiles(t); now != fds {
		t.Errorf("%d open files before, %d after", fds, now)
	}
	if now := interfaces(t); now != devices {
		t.Errorf("the machine's own interfaces were %s and are %s", devices, now)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := FindLab(l.Info().Name); !errors.Is(err, ErrUnknown) {
		t.Errorf("Find after Close: %v", err)
	}
	if err := SweepLab(l.Info().Name); !errors.Is(err, ErrUnknown) {
		t.Errorf("Sweep after Close: %v", err)
	}
	d := l.Devices()[0]
	if _, err := d.Counters(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Counters after Close: %v", err)
	}
	if err := d.SetMTU(1400); !errors.Is(err, os.ErrClosed) {
		t.Errorf("SetMTU after Close: %v", err)
	}
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func interfaces(t *testing.T) string {
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range list {
		names = append(names, i.Name)
	}
	return strings.Join(names, " ")
}

// Whatever fails, and however late, nothing is left behind and the error names the place.
func TestCreate_IsAllOrNothing(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	for _, c := range []struct {
		name  string
		spoil func(*Host)
		want  string
	}{
		{"unknown sysctl", func(h *Host) { h.Sysctls = []Sysctl{{"net.ipv4.tcp_nonsense", "1"}} }, "sysctl net.ipv4.tcp_nonsense: this kernel has no such key"},
		{"refused value", func(h *Host) { h.Sysctls = []Sysctl{{"net.ipv4.tcp_ecn", "many"}} }, `sysctl net.ipv4.tcp_ecn: the kernel refuses the value "many"`},
		{"sysctl of the machine", func(h *Host) { h.Sysctls = []Sysctl{{"kernel.hostname", "x"}} }, "sysctl kernel.hostname: only keys under net."},
		{"sysctl outside /proc/sys/net", func(h *Host) { h.Sysctls = []Sysctl{{"net/../kernel/hostname", "x"}} }, "only keys under net."},
		{"sysctl of another interface", func(h *Host) { h.Sysctls = []Sysctl{{"net.ipv4.conf.eth9.rp_filter", "0"}} }, "no such key"},
		{"multicast MAC", func(h *Host) { h.Interfaces[0].MAC = net.HardwareAddr{1, 0, 0, 0, 0, 1} }, "interface eth0: MAC 01:00:00:00:00:01"},
		{"MTU", func(h *Host) { h.Interfaces[0].MTU = 70000 }, "interface eth0: MTU 70000"},
		{"address twice", func(h *Host) {
			h.Interfaces[0].Addresses = []netip.Prefix{prefix("10.0.0.1/24"), prefix("10.0.0.1/24")}
		}, "interface eth0: address 10.0.0.1/24: file exists: the host has it already"},
		{"IPv6 off", func(h *Host) { h.Sysctls = []Sysctl{{"net.ipv6.conf.eth0.disable_ipv6", "1"}} }, "IPv6 is off"},
		{"gateway out of reach", func(h *Host) { h.Routes = []Route{{prefix("0.0.0.0/0"), addr("192.0.2.1")}} }, "route to 0.0.0.0/0 via 192.0.2.1: network is unreachable: the gateway lies in no prefix"},
		{"route twice", func(h *Host) {
			h.Routes = []Route{{prefix("0.0.0.0/0"), addr("10.0.0.9")}, {prefix("0.0.0.0/0"), addr("10.0.0.8")}}
		}, "the host has another route"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := labName(t)
			hosts := hostsN(3)
			c.spoil(&hosts[1])
			_, err := Create(name, Info{}, hosts)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), "host h2: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %q, want one of host h2 with %q", err, c.want)
			}
			if left := residue(name); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestHost_HasTheConfiguredNetwork(t *testing.T) {
	t.Parallel()
	h1, h2 := hostN(1, TAP, 0), hostN(2, TUN, 0)
	h1.Interfaces[0].MAC = net.HardwareAddr{2, 0, 0, 0, 0, 7}
	h1.Interfaces[0].MTU = 9000
	h1.Interfaces[0].TxQueueLen = 77
	h1.Routes = []Route{
		{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.0.0.9")},
		{netip.MustParsePrefix("::/0"), netip.MustParseAddr("fd00::9")},
	}
	h1.Sysctls = []Sysctl{{"net.ipv4.tcp_ecn", "1"}, {"net.ipv4.conf.eth0.rp_filter", "2"}, {"net/ipv6/conf/eth0/hop_limit", "33"}}
	l := makeLab(t, h1, h2)

	for _, c := range []struct{ host, command, want string }{
		{"h1", "ip -o link show eth0", "mtu 9000"},
		{"h1", "ip -o link show eth0", "qlen 77"},
		{"h1", "ip -o link show eth0", "link/ether 02:00:00:00:00:07"},
		{"h1", "ip -o link show lo", "<LOOPBACK,UP"},
		{"h1", "ip -o -4 address show eth0", "inet 10.0.0.1/16 brd 10.0.255.255"},
		{"h1", "ip -4 route", "default via 10.0.0.9 dev eth0"},
		{"h1", "ip -6 route", "default via fd00::9 dev eth0"},
		{"h1", "cat /proc/sys/net/ipv4/tcp_ecn", "1\n"},
		{"h1", "cat /proc/sys/net/ipv4/conf/eth0/rp_filter", "2\n"},
		{"h1", "cat /proc/sys/net/ipv6/conf/eth0/hop_limit", "33\n"},
		{"h1", "cat /proc/sys/net/ipv6/conf/eth0/accept_ra", "0\n"},
		{"h1", "cat /proc/sys/net/ipv6/conf/eth0/router_solicitations", "0\n"},
		{"h2", "ip -o link show eth0", "<POINTOPOINT,MULTICAST,NOARP,UP,LOWER_UP> mtu 1500"},
		{"h2", "ip -o link show eth0", "qlen 10000"},
		{"h2", "ip -o -6 address show eth0", "fd00::2/64"},
		{"h2", "ip -4 route", "10.0.0.0/16 dev eth0"},
	} {
		if out := inNetwork(t, l, c.host, strings.Fields(c.command)...); !strings.Contains(out, c.want) {
			t.Errorf("%s in %s says %q, want %q in it", c.command, c.host, out, c.want)
		}
	}
	if out := inNetwork(t, l, "h1", "ip", "-6", "address"); strings.Contains(out, "tentative") {
		t.Errorf("an IPv6 address is not usable at once:\n%s", out)
	}
}

func TestLabs_DoNotAffectEachOther(t *testing.T) {
	t.Parallel()
	a, b := makeLab(t, hostsN(2)...), makeLab(t, hostsN(2)...)
	sleeper := program(t, b, "h1", "sleep", "100")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if len(commandsIn(t, b, "h1")) != 1 {
		t.Error("closing one lab ended a process of the other")
	}
	if _, err := b.Devices()[0].Counters(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the process in the host ended with %v, want SIGTERM", err)
	}
}

// Different labs may have the same namespace name.
func TestCreate_RefusesTheNamespaceOfAnotherLab(t *testing.T) {
	t.Parallel()
	name := labName(t)
	other, err := Create(name+"-x", Info{}, []Host{{Name: "y"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := Create(name, Info{}, []Host{{Name: "x-y"}}); err == nil || !strings.Contains(err.Error(), "is host y of lab "+name+"-x") {
		t.Errorf("two labs with the same namespace: %v", err)
	}
	if _, err := os.Stat(namespacePath(NamespaceName(name, "x-y"))); err != nil {
		t.Errorf("the other lab lost its namespace: %v", err)
	}
}

func TestCreate_SparesAForeignNamespace(t *testing.T) {
	t.Parallel()
	name := labName(t)
	path := namespacePath(NamespaceName(name, "h1"))
	if err := shareNetnsMounts(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	if _, err := Create(name, Info{}, hostsN(1)); err == nil || !strings.Contains(err.Error(), "ip netns del") {
		t.Errorf("Create over a foreign namespace: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}

func TestCreate_HasOneWinner(t *testing.T) {
	t.Parallel()
	name := labName(t)
	var winners []*Lab
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			l, err := Create(name, Info{}, hostsN(2))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, l)
			} else if !errors.Is(err, ErrRunning) {
				t.Errorf("a loser was told: %v", err)
			}
		})
	}
	all.Wait()
	if len(winners) != 1 {
		t.Errorf("%d winners", len(winners))
	}
	if _, err := Create(name, Info{}, hostsN(2)); err == nil || !strings.Contains(err.Error(), "weft down "+name) {
		t.Errorf("Create of a running lab: %v", err)
	}
	if err := SweepLab(name); !errors.Is(err, ErrRunning) {
		t.Errorf("Sweep of a running lab: %v", err)
	}
	for _, l := range winners {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestClose_LeavesUsersFilesInEtc(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	own := filepath.Join(etcDir(), NamespaceName(l.Info().Name, "h1"), "resolv.conf")
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(own))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(own)); len(entries) != 1 {
		t.Errorf("there are %v, want resolv.conf only", entries)
	}
}

// commandsIn returns the command lines of the processes in a host, except its first, by PID.
func commandsIn(t testing.TB, l *Lab, host string) map[int]string {
	t.Helper()
	id, err := inodeOf(namespacePath(NamespaceName(l.Info().Name, host)))
	if err != nil {
		t.Fatal(err)
	}
	found, err := processesIn(map[inode]bool{id: true}, l.initPIDs())
	if err != nil {
		t.Fatal(err)
	}
	closeAll(found)
	commands := map[int]string{}
	for _, p := range found {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // it may have ended
		commands[p.pid] = strings.TrimSuffix(strings.ReplaceAll(string(line), "\x00", " "), " ")
	}
	return commands
}

// More hosts than are built and removed at the same time.
func TestLab_HasManyHosts(t *testing.T) {
	t.Parallel()
	const n = buildWorkers + 1
	l := makeLab(t, hostsN(n)...)
	if hosts, devices := len(l.Info().Hosts), len(l.Devices()); hosts != n || devices != n {
		t.Errorf("%d hosts with %d devices, want %d", hosts, devices, n)
	}
}

// Users wait for this time.
func BenchmarkLab(b *testing.B) {
	for _, n := range []int{8, 64} {
		b.Run(fmt.Sprint(n, " hosts"), func(b *testing.B) {
			for b.Loop() {
				if err := makeLab(b, hostsN(n)...).Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
