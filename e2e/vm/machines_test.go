package vm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/sim/units"
)

// needVM skips a test that needs virtual machines if they cannot run here.
func needVM(t *testing.T, programs ...string) string {
	t.Helper()
	weft := testlab.Need(t, programs...)
	if _, err := vm.FindQEMU(); err != nil {
		t.Skipf("SKIPPED, NO VIRTUAL MACHINES WERE TESTED: %v", err)
	}
	if _, err := vm.FindImage(); err != nil {
		t.Skipf("SKIPPED, NO VIRTUAL MACHINES WERE TESTED: %v", err)
	}
	return weft
}

// machine returns the lab's status of a virtual machine.
func machine(l *testlab.Lab, name string) lab.Machine {
	l.T.Helper()
	var s lab.Status
	if err := json.Unmarshal([]byte(l.Must("ps", "--json", l.Name)), &s); err != nil {
		l.T.Fatal(err)
	}
	for _, h := range s.Hosts {
		if h.Name == name && h.VM != nil {
			return *h.VM
		}
	}
	l.T.Fatalf("%s is no virtual machine of the lab", name)
	return lab.Machine{}
}

// gonePID waits until a process has ended.
func gonePID(t *testing.T, pid int) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !bytes.Contains(b, []byte("qemu")) {
			return
		}
		if time.Since(start) > 30*time.Second {
			t.Fatalf("the QEMU %d is still there", pid)
		}
	}
}

// TestVirtualMachines boots two guests beside a host once for all of its parts.
func TestVirtualMachines(t *testing.T) {
	needVM(t, "iperf3", "ping", "tshark", "script")
	l := testlab.Start(t, `
topology:
  kinds:
    link: {rate: 1Gbps, delay: 20us}
    switch: {queue: {limit: 300KB, mark: {step: {k: 15KB}}}}
    vm: {sysctls: {net.ipv4.tcp_congestion_control: dctcp, net.ipv4.tcp_ecn: 1}}
  nodes:
    v1: {kind: vm}
    v2: {kind: vm, address: 10.0.7.7/16, accel: tcg}
    h1: {kind: host}
    s1: {kind: switch}
    s2: {kind: switch}
  links:
    - {endpoints: ["v1:eth0", "s1:1"]}
    - {endpoints: ["h1:eth0", "s1:2"]}
    - {endpoints: ["v2:eth0", "s2:1"]}
    - {endpoints: ["s1:s2", "s2:s1"], rate: 5Mbps}
`, "iperf3", "ping", "tshark")
	t.Run("Exec", func(t *testing.T) { testGuestExec(l, t) })
	t.Run("Ping", func(t *testing.T) { testGuestPing(l, t) })
	t.Run("IperfToHost", func(t *testing.T) { testGuestIperf(l, t) })
	t.Run("RDMA", func(t *testing.T) { testGuestRDMA(l, t) })
	t.Run("DCTCP", func(t *testing.T) { testGuestDCTCP(l, t) })
	t.Run("LinkDown", func(t *testing.T) { testGuestCarrier(l, t) })
	t.Run("Killed", func(t *testing.T) { testGuestKilled(l, t) })
}

func testGuestExec(l *testlab.Lab, t *testing.T) {
	l = l.In(t)
	in := func(argv ...string) (string, string, int) {
		return l.Run(append([]string{"exec", "-l", l.Name, "v1", "--"}, argv...)...)
	}
	if o, e, code := in("sh", "-c", "echo out; echo err >&2; exit 42"); o != "out\n" || e != "err\n" || code != 42 {
		t.Errorf("%q, %q, exit code %d", o, e, code)
	}
	if _, e, code := in("no-such-program"); code != 127 || !strings.Contains(e, "no-such-program") {
		t.Errorf("a missing program: exit code %d, %q", code, e)
	}
	c := l.Command("exec", "-l", l.Name, "v2", "--", "wc", "-c")
	c.Stdin = strings.NewReader(strings.Repeat("x", 300_000))
	if o, _, code := testlab.RunCommand(t, c); strings.TrimSpace(o) != "300000" || code != 0 {
		t.Errorf("300000 bytes of input are %q, exit code %d", o, code)
	}
	// Several programs at once, and a signal to one of them.
	slow := l.Command("exec", "-l", l.Name, "v1", "--", "sh", "-c", "trap 'exit 7' TERM; echo ready; sleep 1000 & wait")
	out, err := slow.StdoutPipe()
	if err == nil {
		err = slow.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 6))
	if o, _, _ := in("hostname"); o != "v1\n" {
		t.Errorf("hostname %q while another program runs", o)
	}
	_ = slow.Process.Signal(syscall.SIGTERM)
	if _ = slow.Wait(); slow.ProcessState.ExitCode() != 7 {
		t.Errorf("SIGTERM gave %v, want the program's exit code 7", slow.ProcessState)
	}
	tty, err := exec.Command("script", "-qec", l.Weft+" exec -l "+l.Name+" v1 -- tty", "/dev/null").CombinedOutput()
	if err != nil || !strings.Contains(string(tty), "/dev/pts/") {
		t.Errorf("tty inside a guest: %v, %q", err, tty)
	}
	// The console is the machine's own, and is logged.
	c = l.Command("shell", "-l", l.Name, "--console", "v1")
	keys, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	screen, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(keys, "echo it is $((40+2))")
	said := ""
	for b := make([]byte, 1000); !strings.Contains(said, "it is 42"); {
		n, err := screen.Read(b)
		said += string(b[:n])
		if err != nil {
			t.Fatalf("the console ends after %q", said)
		}
	}
	_, _ = keys.Write([]byte{0x1d})
	if err := c.Wait(); err != nil {
		t.Errorf("leaving the console: %v", err)
	}
	if b, err := os.ReadFile(machine(l, "v1").Log); err != nil || !strings.Contains(string(b), "it is 42") {
		t.Errorf("the console's log has %q, %v", b, err)
	}
	if _, e, code := l.Run("shell", "-l", l.Name, "--console", "h1"); code != 2 || !strings.Contains(e, "not a virtual machine") {
		t.Errorf("the console of a host: exit code %d, %q", code, e)
	}
	if o, err := exec.Command(l.Weft, "ps", "-p", l.Name).Output(); err != nil || !strings.Contains(string(o), "v1:eth0") {
		t.Errorf("%s, %v", o, err)
	}
}

func testGuestPing(l *testlab.Lab, t *testing.T) {
	l = l.In(t)
	l.Exec("v1", "ping", "-c", "2", "-W", "10", "h1")
	l.Exec("h1", "ping", "-4", "-c", "2", "-W", "10", "v2")
	l.Exec("h1", "ping", "-6", "-c", "2", "-W", "10", "v1")
	l.Exec("v2", "ping", "-4", "-M", "do", "-s", "1472", "-c", "2", "-W", "10", "v1")
	if o := l.Exec("v2", "ip", "-br", "address", "show", "eth0"); !strings.Contains(o, "10.0.7.7/16") || !strings.Contains(o, "fd00::2/64") {
		t.Errorf("v2 has the addresses %q", o)
	}
}

func testGuestIperf(l *testlab.Lab, t *testing.T) {
	l = l.In(t)
	// An emulated processor on a busy machine can reach this rate.
	r := l.Iperf3("v1", "h1", "10.0.0.3", "-t", "2", "-b", "10M")
	if bits := r.End.Received.Bits; bits < 5e6 || bits > 11e6 {
		t.Errorf("%.1f Mb/s, want about 10", bits/1e6)
	}
	r = l.Iperf3("h1", "v2", "10.0.7.7", "-t", "1", "-b", "2M", "-u", "-l", "1000")
	if r.End.Sum.Packets == 0 || r.End.Sum.Lost > r.End.Sum.Packets/4 {
		t.Errorf("UDP: %+v", r.End.Sum)
	}
}

// testGuestRDMA: the kernel's own RDMA over the fabric.
func testGuestRDMA(l *testlab.Lab, t *testing.T) {
	l = l.In(t)
	stop := l.Capture("s1:s2")
	s := l.StartServer("v2", "rping", "-s", "-a", "10.0.7.7", "-C", "10")
	client := func() (string, int) {
		o, e, code := l.Run("exec", "-l", l.Name, "v1", "--", "rping", "-c", "-a", "10.0.7.7", "-C", "10", "-V", "-v")
		return o + e, code
	}
	o, code := client()
	for start := time.Now(); code != 0 && time.Since(start) < 30*time.Second; { // until the server listens
		time.Sleep(100 * time.Millisecond)
		o, code = client()
	}
	if code != 0 || strings.Count(o, "ping data:") != 10 {
		t.Errorf("rping: exit code %d\n%s", code, o)
	}
	_ = s.Wait()
	if r := l.Exec("v1", "ibv_devinfo", "-d", "rxe0"); !strings.Contains(r, "PORT_ACTIVE") {
		t.Errorf("ibv_devinfo says\n%s", r)
	}
	file := stop()
	check := []string{"-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"}
	if bad := testlab.Tshark(t, file, append(check, "-Y", "_ws.malformed or ip.checksum.status == 0 or tcp.checksum.status == 0 or udp.checksum.status == 0 or icmpv6.checksum.status == 0")...); len(bad) > 0 {
		t.Errorf("tshark finds fault with %d packets, such as %s", len(bad), bad[0])
	}
	if n := len(testlab.Tshark(t, file, "-Y", "infiniband.bth.opcode")); n < 120 {
		t.Errorf("%d RoCE packets in the capture, want the 125 of rping -C 10", n)
	}
	for _, what := range []string{"infiniband.mad.attributeid == 0x10", "infiniband.bth.opcode == 12", "infiniband.bth.opcode == 10"} {
		if len(testlab.Tshark(t, file, "-Y", what)) == 0 {
			t.Errorf("no packet with %s: a connection, READs and WRITEs were to be", what)
		}
	}
}

// testGuestDCTCP: Linux's DCTCP keeps the queue at a marking switch short, and its
// CUBIC without ECN fills it.
func testGuestDCTCP(l *testlab.Lab, t *testing.T) {
	l = l.In(t)
	// queue returns the median of the queue at the bottleneck while v1 sends to v2.
	queue := func(control, ecn string) (median units.Bytes, marked uint64) {
		t.Helper()
		l.Exec("v1", "sysctl", "-w", "net.ipv4.tcp_ecn="+ecn, "net.ipv4.tcp_congestion_control="+control)
		before := l.Ports()["s1:s2"].Marked
		s := l.StartServer("v2", "iperf3", "-s", "-1")
		l.WaitListening("v2", "5201")
		c := l.StartServer("v1", "iperf3", "-c", "10.0.7.7", "-t", "5")
		// Leave out the beginning, when TCP does not know the rate yet.
		time.Sleep(1500 * time.Millisecond)
		var seen []units.Bytes
		for range 30 {
			seen = append(seen, l.Ports()["s1:s2"].QueueBytes)
			time.Sleep(80 * time.Millisecond)
		}
		if err := c.Wait(); err != nil {
			t.Fatalf("iperf3 with %s: %v", control, err)
		}
		_ = s.Wait()
		slices.Sort(seen)
		return seen[len(seen)/2], l.Ports()["s1:s2"].Marked - before
	}
	short, marked := queue("dctcp", "1")
	long, unmarked := queue("cubic", "0")
	t.Logf("DCTCP: queue %v, %d marked; CUBIC without ECN: queue %v, %d marked", short, marked, long, unmarked)
	if marked == 0 || unmarked != 0 {
		t.Errorf("%d marked with DCTCP, %d without ECN", marked, unmarked)
	}
	if short*2 > long || long < 60*units.KB {
		t.Errorf("the queue is %v with DCTCP and %v with CUBIC", short, long)
	}
}

func testGuestCarrier(l *testlab.Lab, t *testing.T) {
	l = l.In(t)
	carrier := func(want string) {
		t.Helper()
		for start := time.Now(); strings.TrimSpace(l.Exec("v1", "cat", "/sys/class/net/eth0/carrier")) != want; time.Sleep(20 * time.Millisecond) {
			if time.Since(start) > 30*time.Second {
				t.Fatalf("the guest's carrier does not become %s", want)
			}
		}
	}
	l.Must("set", "-l", l.Name, "v1:eth0", "state=down")
	carrier("0")
	l.Must("set", "-l", l.Name, "v1:eth0", "state=up")
	carrier("1")
	l.Exec("v1", "ping", "-c", "1", "-W", "10", "h1")
}

// testGuestKilled: a lab continues without a guest that has ended, and leaves
// nothing at its end.
func testGuestKilled(l *testlab.Lab, t *testing.T) {
	l = l.In(t)
	one, two := machine(l, "v1"), machine(l, "v2")
	if err := syscall.Kill(two.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gonePID(t, two.PID)
	for start := time.Now(); machine(l, "v2").Running; time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatal("the lab does not see that v2 has ended")
		}
	}
	l.Exec("v1", "ping", "-c", "1", "-W", "10", "h1")
	l.Exec("h1", "ping", "-4", "-c", "1", "-W", "10", "v1")
	if _, e, code := l.Run("exec", "-l", l.Name, "v2", "--", "true"); code != 1 || !strings.Contains(e, "v2 has ended") {
		t.Errorf("exec in a guest that has ended: exit code %d, %q", code, e)
	}
	if b, err := os.ReadFile(filepath.Join("/run/weft", l.Name, "log")); err != nil || !strings.Contains(string(b), "the virtual machine v2 has ended") {
		t.Errorf("the lab's log has %q, %v", b, err)
	}
	r := l.Down()
	if !r.Accounts.Balanced() {
		t.Errorf("accounts %+v", r.Accounts)
	}
	ended := map[string]string{}
	for _, h := range r.Hosts {
		if h.Guest != nil {
			ended[h.Name] = h.Guest.Ended
		}
	}
	if len(ended) != 2 || ended["v1:eth0"] != "" || !strings.Contains(ended["v2:eth0"], "killed") {
		t.Errorf("the report says of the guests %q", ended)
	}
	gonePID(t, one.PID)
	testlab.CheckNothingLeft(t, l.Name)
}

// TestKilledLabLeavesNoMachine: QEMU ends with the lab's process. The guest boots the
// user's own kernel, from a disk that it does not change.
func TestKilledLabLeavesNoMachine(t *testing.T) {
	t.Parallel()
	needVM(t)
	image, err := vm.FindImage()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk.raw")
	before := bytes.Repeat([]byte("weft"), 1<<18)
	if err := os.WriteFile(disk, before, 0o600); err != nil {
		t.Fatal(err)
	}
	l := testlab.New(t, needVM(t), dir, fmt.Sprintf(`
topology:
  nodes:
    v1: {kind: vm, kernel: %q, initrd: %q, append: no_timer_check quiet, disk: disk.raw, console: v1.log, ready: "v1:/#"}
    s1: {kind: switch}
  links: [{endpoints: ["v1:eth0", "s1:1"]}, {endpoints: ["v1:lan", "s1:2"], mtu: 4000}]
`, filepath.Join(image, "vmlinux"), filepath.Join(image, "initramfs")))
	l.Must("up", "-d", l.File)
	if o := l.Exec("v1", "ip", "-o", "link", "show", "lan"); !strings.Contains(o, "mtu 4000") {
		t.Errorf("the second interface is %q", o)
	}
	l.Exec("v1", "modprobe", "virtio_blk")
	if o := l.Exec("v1", "sh", "-c", "head -c 4 /dev/vda && echo changed >/dev/vda && sync && head -c 7 /dev/vda"); o != "weftchanged" {
		t.Errorf("the disk reads %q", o)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "v1.log")); err != nil || !strings.Contains(string(b), "v1:/#") {
		t.Errorf("the console's file: %v", err)
	}
	m := machine(l, "v1")
	l.Crash()
	gonePID(t, m.PID)
	l.Must("down", l.Name)
	testlab.CheckNothingLeft(t, l.Name)
	if after, err := os.ReadFile(disk); err != nil || !bytes.Equal(after, before) {
		t.Error("the disk was changed, which is not to persist")
	}
}

// TestPersistentDisk: a guest that may write to its disk powers off by itself when
// the lab ends, and its data is on the disk.
func TestPersistentDisk(t *testing.T) {
	t.Parallel()
	needVM(t)
	image, err := vm.FindImage()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	l := testlab.New(t, needVM(t), dir, fmt.Sprintf(`
topology:
  nodes:
    v1: {kind: vm, kernel: %q, initrd: %q, append: no_timer_check quiet, disk: disk.raw, persist: true, ready: agent}
    s1: {kind: switch}
  links: [{endpoints: ["v1:eth0", "s1:1"]}]
`, filepath.Join(image, "vmlinux"), filepath.Join(image, "initramfs")))
	l.Must("up", "-d", l.File)
	l.Exec("v1", "sh", "-c", "modprobe virtio_blk && echo changed >/dev/vda")
	m := machine(l, "v1")
	l.Must("down", l.Name)
	gonePID(t, m.PID)
	if b, err := os.ReadFile(disk); err != nil || !strings.HasPrefix(string(b), "changed\n") {
		t.Errorf("the disk begins with %q, %v", b[:min(len(b), 8)], err)
	}
	testlab.CheckNothingLeft(t, l.Name)
}

// TestMachineThatDoesNotComeUp: the error is reported, and nothing is left behind.
func TestMachineThatDoesNotComeUp(t *testing.T) {
	weft := needVM(t)
	up := func(name, node string) string {
		t.Helper()
		l := testlab.New(t, weft, t.TempDir(), "topology: {nodes: {v1: "+node+", s1: {kind: switch}}, links: [{endpoints: [\"v1:eth0\", \"s1:1\"]}]}\n")
		_, e, code := l.Run("up", "-d", l.File)
		if code != 1 {
			t.Errorf("%s: exit code %d, %q", name, code, e)
		}
		if left := testlab.Residue(t, l.Name); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
		return e
	}
	if e := up("a missing kernel", "{kind: vm, kernel: vmlinuz, disk: /tmp}"); !strings.Contains(e, "lab.yaml:2: v1: the kernel ") || !strings.Contains(e, "no such file") || !strings.Contains(e, "the disk /tmp is a directory") {
		t.Errorf("missing files: %q", e)
	}
	if e := up("a missing image", "{kind: vm, image: nowhere}"); !strings.Contains(e, "has no vmlinux") || !strings.Contains(e, "scripts/vm-image.sh") {
		t.Errorf("a missing image: %q", e)
	}
	t.Setenv("WEFT_VM", t.TempDir())
	if e := up("no image", "{kind: vm}"); !strings.Contains(e, "build it with scripts/vm-image.sh") {
		t.Errorf("no image: %q", e)
	}
	os.Unsetenv("WEFT_VM")
	e := up("a kernel that panics", "{kind: vm, append: rdinit=/nothing root=/dev/none}")
	if !strings.Contains(e, "v1 did not start") || !strings.Contains(e, "panic") {
		t.Errorf("a kernel that panics: %q", e)
	}
	e = up("one that is not ready", "{kind: vm, ready: nothing says this, ready-limit: 1s}")
	if !strings.Contains(e, `after 1s its console has not shown "nothing says this"`) {
		t.Errorf("one that is not ready: %q", e)
	}
}
