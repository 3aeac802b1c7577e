package vm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

func nics() []NIC {
	return []NIC{
		{Name: "eth1", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, MTU: 1500},
		{Name: "eth0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, MTU: 9000},
	}
}

// TestSetup_IsALineForEachSetting: the settings are in the order in which the guest applies them.
func TestSetup_IsALineForEachSetting(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	s := Setup{
		Addresses: map[string][]netip.Prefix{"eth1": {prefix("10.0.0.1/16"), prefix("fd00::1/64")}, "eth0": {prefix("10.1.0.1/16")}},
		Routes:    []Route{{prefix("0.0.0.0/0"), addr("10.0.0.254")}},
		Sysctls:   []Sysctl{{"net.ipv4.tcp_rmem", "4096 131072 6291456"}},
		Hosts:     []Host{{"h1", addr("10.0.0.2")}},
	}
	got := strings.Split(strings.TrimSpace(s.formatSetup("v1", nics())), "\n")
	// Ignore kernel settings that every guest gets.
	got = slices.DeleteFunc(got, func(l string) bool { return strings.HasPrefix(l, "sysctl net/ipv6/") })
	want := []string{
		"hostname v1", "host 10.0.0.2 h1",
		// Names may be swapped, so all are renamed through temporary ones.
		"nic 02:00:00:00:00:01 weft-0", "nic 02:00:00:00:00:02 weft-1", "name weft-0 eth1", "name weft-1 eth0",
		"sysctl net/ipv4/tcp_rmem 4096 131072 6291456",
		"up eth1", "address eth1 10.0.0.1/16", "address eth1 fd00::1/64", "rdma eth1 rxe0",
		"up eth0", "address eth0 10.1.0.1/16", "rdma eth0 rxe1",
		"route 0.0.0.0/0 10.0.0.254",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestArguments_FollowWhatIsBooted: an image, a kernel or a disk, with KVM and without.
func TestArguments_FollowWhatIsBooted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw, qcow := write("a,b.raw", "not a qcow2"), write("disk", "QFI\xfb\x00\x00\x00\x03")
	for name, c := range map[string]struct {
		config Config
		accel  Accel
		has    []string
		lacks  []string
	}{
		"built-in": {
			Config{Image: "/img", Append: "a b", CPUs: 2, Memory: 256 * units.MiB, NICs: nics()}, TCG,
			[]string{
				"-kernel /img/vmlinux", "-initrd /img/initramfs", " a b", "-no-reboot", "-m 256M -smp 2", "-accel tcg -cpu max",
				"dgram,id=nic0,local.type=fd,local.str=5", "id=nic1-dev,netdev=nic1,mac=02:00:00:00:00:02,host_mtu=9000",
			},
			[]string{"-drive"},
		},
		"kernel": {
			Config{Kernel: "/k", Initrd: "/i", Disk: raw, Append: "root=/dev/vda", CPUs: 1, Memory: 64 * units.MiB}, KVM,
			[]string{"-kernel /k -append console=ttyS0 root=/dev/vda -initrd /i", "/a,,b.raw,if=virtio,format=raw,snapshot=on", "-accel kvm -cpu host"},
			[]string{"-no-reboot", "no_timer_check"},
		},
		"disk": {
			Config{Disk: qcow, Persist: true, CPUs: 1, Memory: 64 * units.MiB}, TCG,
			[]string{"/disk,if=virtio,format=qcow2 "},
			[]string{"snapshot", "-kernel", "-append", "-initrd"},
		},
	} {
		got := strings.Join(c.config.qemuArguments(c.accel, 3, 4, []int{5, 6}, "/s"), " ")
		for _, w := range c.has {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in %s", name, w, got)
			}
		}
		for _, w := range c.lacks {
			if strings.Contains(got, w) {
				t.Errorf("%s: %q in %s", name, w, got)
			}
		}
	}
}

// TestFollower_FindsATextHoweverItsFileGrows: also if it comes in parts.
func TestFollower_FindsATextHoweverItsFileGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{1,5}`).Draw(t, "text")
		parts := rapid.SliceOf(rapid.StringMatching(`[ab]{0,4}`)).Draw(t, "parts")
		os.Remove(path)
		var f follower
		so := ""
		for _, p := range parts {
			so += p
			if err := os.WriteFile(path, []byte(so), 0o600); err != nil {
				t.Fatal(err)
			}
			found, want := f.hasAppeared(path, text), strings.Contains(so, text)
			if found != want {
				t.Fatalf("%q in %q: %v", text, so, found)
			}
			if found {
				return
			}
		}
	})
}

// TestLastLines_LeaveOutEmptyOnesAndEscapes: of a file with a terminal's output.
func TestLastLines_LeaveOutEmptyOnesAndEscapes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\r\n\r\ntwo\x1b[6n\r\n  three\r\n\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lastLines(path, 2); got != "two[6n\nthree" {
		t.Errorf("%q", got)
	}
	if got := lastLines(path+"x", 2); got != "" {
		t.Errorf("%q of no file", got)
	}
}

// TestMonitor_PassesOnAnswersAndEvents talks to a QEMU simulated by the test.
func TestMonitor_PassesOnAnswersAndEvents(t *testing.T) {
	ours, its := net.Pipe()
	events := make(chan string, 1)
	m := newMonitor(ours, func(e string) { events <- e })
	go func() {
		in := bufio.NewScanner(its)
		fmt.Fprintln(its, `{"QMP": {"version": {}, "capabilities": []}}`)
		for in.Scan() {
			var c command
			if err := json.Unmarshal(in.Bytes(), &c); err != nil {
				t.Error(err)
			}
			switch c.Execute {
			case "set_link":
				fmt.Fprintln(its, `{"event": "RESET", "data": {}}`)
				fmt.Fprintln(its, `{"error": {"class": "DeviceNotFound", "desc": "Device 'x' not found"}}`)
			case "quit":
				its.Close()
			default:
				fmt.Fprintln(its, `{"return": {}}`)
			}
		}
	}()
	if err := m.executeCommand("system_powerdown", nil); err != nil {
		t.Error(err)
	}
	if err := m.executeCommand("set_link", map[string]any{"name": "x", "up": true}); err == nil || err.Error() != "QEMU refused set_link: Device 'x' not found" {
		t.Errorf("%v", err)
	}
	if e := <-events; e != "RESET" {
		t.Errorf("the event %q", e)
	}
	if err := m.executeCommand("quit", nil); !errors.Is(err, errMonitor) {
		t.Errorf("after the end: %v", err)
	}
}

// TestAuto_FallsBackToTCG: a machine that does not come up with KVM is started again with TCG;
// with accel: kvm it fails with QEMU's own message. A script simulates QEMU.
func TestAuto_FallsBackToTCG(t *testing.T) {
	if err := unix.Access("/dev/kvm", unix.R_OK|unix.W_OK); err != nil {
		t.Skipf("SKIPPED: /dev/kvm cannot be used (%v), so nobody tries KVM", err)
	}
	dir := t.TempDir()
	simulateQEMU(t, "echo \"$@\" >>"+dir+"/calls\ncase \"$*\" in *'accel kvm'*) echo 'qemu: KVM is broken' >&2; exit 1;; esac\necho 'up and running' >>"+dir+"/console.log\nexec sleep 1000\n")
	for accel, want := range map[Accel]string{Auto: "", KVM: "v1 did not start: qemu: KVM is broken"} {
		os.Remove(filepath.Join(dir, "console.log"))
		m, err := Start(Config{
			Name: "v1", Dir: dir, Kernel: "/k", CPUs: 1, Memory: 64 * units.MiB, Accel: accel, Ready: "up and running", Limit: time.Minute,
		}, func(c *exec.Cmd) (<-chan error, error) {
			ended := make(chan error, 1)
			err := c.Start()
			if err == nil {
				go func() { ended <- c.Wait() }()
			}
			return ended, err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = m.AwaitUp(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%v: %v", accel, err)
		}
		if accel == Auto {
			m.Stop(0)
		}
		<-m.Over()
		if m.Err() == nil {
			t.Errorf("%v: it does not say how it ended", accel)
		}
		if m.Link().Err() == nil {
			t.Errorf("%v: the agent's stream has not ended", accel)
		}
	}
	f, err := os.Open(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, _ := io.ReadAll(f)
	if kvm, tcg := strings.Count(string(b), "accel kvm"), strings.Count(string(b), "accel tcg"); kvm != 2 || tcg != 1 {
		t.Errorf("%d starts by KVM and %d by TCG, want 2 and 1", kvm, tcg)
	}
}

// TestStop_EndsTheQEMUThatWasStartedAgain: a machine that is up, and is stopped, before the
// start of its second QEMU has returned ends this one, not the first.
func TestStop_EndsTheQEMUThatWasStartedAgain(t *testing.T) {
	if err := unix.Access("/dev/kvm", unix.R_OK|unix.W_OK); err != nil {
		t.Skipf("SKIPPED: /dev/kvm cannot be used (%v), so nobody tries KVM", err)
	}
	simulateQEMU(t, "case \"$*\" in *'accel kvm'*) exit 1;; esac\nexec sleep 1000\n")
	var m *Machine
	started := make(chan struct{}) // m is set
	stopped := make(chan struct{})
	starts := 0
	m, err := Start(Config{
		Name: "v1", Dir: t.TempDir(), Kernel: "/k", CPUs: 1, Memory: 64 * units.MiB, Accel: Auto, Ready: ReadyNone, Limit: time.Minute,
	}, func(c *exec.Cmd) (<-chan error, error) {
		ended := make(chan error, 1)
		if starts++; starts == 2 {
			<-started
			go func() {
				defer close(stopped)
				m.Stop(0)
			}()
			select {
			case <-stopped: // of what it does not know
			case <-time.After(100 * time.Millisecond): // Stop waits for this start, as it should
			}
		}
		err := c.Start()
		if err == nil {
			go func() { ended <- c.Wait() }()
		}
		return ended, err
	})
	if err != nil {
		t.Fatal(err)
	}
	close(started)
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("Stop has not ended the second QEMU")
	}
	if starts != 2 {
		t.Errorf("%d starts, want 2", starts)
	}
}

// simulateQEMU puts a shell script in the place of QEMU, and a processor with hardware
// virtualisation in the place of this one.
func simulateQEMU(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	processor := filepath.Join(dir, "cpuinfo")
	if err := os.WriteFile(processor, []byte("flags\t\t: fpu vmx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := cpuinfo
	t.Cleanup(func() { cpuinfo = own })
	cpuinfo = processor
}

// TestAuto_NeedsHardwareVirtualisation: KVM is not chosen automatically without it.
func TestAuto_NeedsHardwareVirtualisation(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: other processors than x86-64 do not show it")
	}
	file := filepath.Join(t.TempDir(), "cpuinfo")
	if !byHardware(file) {
		t.Error("a machine of which nothing is known is not tried")
	}
	for text, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu vme svm pcid\nbugs\t\t: x\n": true,
		"flags\t\t: fpu vmx\nvmx flags\t: vnmi\n":                    true,
		"flags\t\t: fpu hypervisor pcid\n":                           false,
		"processor\t: 0\n":                                           true,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := byHardware(file); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
