package vm

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// machinesLab is two guests beside a host. v1 has a disk that it may write to, and commands of
// the lab file; the packets of v2 pass an edge service.
const machinesLab = `
topology:
  kinds:
    link: {rate: 1Gbps, delay: 20us}
    switch: {queue: {limit: 300KB, mark: {step: {k: 15KB}}}}
    vm: {sysctls: {net.ipv4.tcp_congestion_control: dctcp, net.ipv4.tcp_ecn: 1}, ready-limit: 10min}
  nodes:
    v1:
      kind: vm
      %s
      disk: disk.raw
      persist: true
      ready: agent
      exec:
        - {run: "touch /tmp/up; echo $WORD; sleep 100000", env: {WORD: it is me}, ready: {file: /tmp/up}}
        - {run: [iperf3, -s, -1], ready: {port: 5201}}
        - {run: "echo done", ready: {output: done}}
    v2: {kind: vm, address: 10.0.7.7/16, accel: tcg, edge: {limit: {rate: 4Mbps, age: 10min}}}
    h1: {kind: host}
    s1: {kind: switch}
    s2: {kind: switch}
  links:
    - {endpoints: ["v1:eth0", "s1:1"]}
    - {endpoints: ["h1:eth0", "s1:2"]}
    - {endpoints: ["v2:eth0", "s2:1"]}
    - {endpoints: ["s1:s2", "s2:s1"], rate: 5Mbps}
`

// TestMachines_WorkLikeHosts boots two guests beside a host once for all of its parts.
func TestMachines_WorkLikeHosts(t *testing.T) {
	t.Parallel()
	weft, dir := needVM(t, "iperf3", "ping", "tshark", "script"), t.TempDir()
	disk := filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	l := testlab.New(t, weft, dir, fmt.Sprintf(machinesLab, strings.ReplaceAll(ownKernel(t), ", ", "\n      ")))
	up(l)
	for _, part := range []struct {
		name string
		run  func(*testlab.Lab)
	}{
		{"CommandsOfTheLabFile_Run", testCommands},
		{"Exec_RunsPrograms", testExec},
		{"Console_IsTheMachines", testConsole},
		{"Ping_ReachesHostsAndGuests", testPing},
		{"Iperf3_CarriesTCPAndUDP", testIperf3},
		{"KernelRDMA_CrossesTheFabric", testKernelRDMA},
		{"DCTCP_KeepsTheQueueShort", testDCTCP},
		{"EdgeService_HoldsAGuestsPackets", testEdge},
		{"LinkThatIsDown_TakesTheCarrier", testCarrier},
		{"GuestThatIsKilled_LeavesTheLabRunning", testKilled},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(l.In(t)) })
	}
	t.Run("Disk_HasWhatAGuestHasWritten", func(t *testing.T) {
		if b, err := os.ReadFile(disk); err != nil || !strings.HasPrefix(string(b), "changed\n") {
			t.Errorf("the disk begins with %q, %v", b[:min(len(b), 8)], err)
		}
	})
}

// testCommands: the lab file's commands run in a guest through its agent.
func testCommands(l *testlab.Lab) {
	if out := l.Exec("h1", "iperf3", "-c", "v1", "-n", "100K"); !strings.Contains(out, "receiver") {
		l.T.Error(out)
	}
	l.WaitFor("the end of iperf3 in the log", func() bool {
		return strings.Contains(l.Log(), "the command \"iperf3 -s -1\" has ended: exit code 0")
	})
	if !strings.Contains(l.Log(), "v1: it is me\n") {
		l.T.Error(l.Log())
	}
}

func testExec(l *testlab.Lab) {
	in := func(argv ...string) (string, string, int) {
		return l.Run(append([]string{"exec", "-l", l.Name, "v1", "--"}, argv...)...)
	}
	if o, e, code := in("sh", "-c", "echo out; echo err >&2; exit 42"); o != "out\n" || e != "err\n" || code != 42 {
		l.T.Errorf("%q, %q, exit code %d", o, e, code)
	}
	if _, e, code := in("no-such-program"); code != 127 || !strings.Contains(e, "no-such-program") {
		l.T.Errorf("a missing program: exit code %d, %q", code, e)
	}
	c := l.Command("exec", "-l", l.Name, "v2", "--", "wc", "-c")
	c.Stdin = strings.NewReader(strings.Repeat("x", 300_000))
	if o, _, code := testlab.RunCommand(l.T, c); strings.TrimSpace(o) != "300000" || code != 0 {
		l.T.Errorf("300000 bytes of input are %q, exit code %d", o, code)
	}
	// Several programs at once, and a signal to one of them.
	slow := l.Command("exec", "-l", l.Name, "v1", "--", "sh", "-c", "trap 'exit 7' TERM; echo ready; sleep 1000 & wait")
	out, err := slow.StdoutPipe()
	if err == nil {
		err = slow.Start()
	}
	if err == nil {
		_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	}
	if err != nil {
		l.T.Fatal(err)
	}
	if o, _, _ := in("hostname"); o != "v1\n" {
		l.T.Errorf("hostname %q while another program runs", o)
	}
	_ = slow.Process.Signal(syscall.SIGTERM)
	if _ = slow.Wait(); slow.ProcessState.ExitCode() != 7 {
		l.T.Errorf("SIGTERM gave %v, want the program's exit code 7", slow.ProcessState)
	}
	if tty := output(l.T, "script", "-qec", l.Weft+" exec -l "+l.Name+" v1 -- tty", "/dev/null"); !strings.Contains(tty, "/dev/pts/") {
		l.T.Errorf("tty inside a guest: %q", tty)
	}
	if ports := l.Must("ps", "-p", l.Name); !strings.Contains(ports, "v1:eth0") {
		l.T.Errorf("%s", ports)
	}
	l.Exec("v1", "sh", "-c", "modprobe virtio_blk && echo changed >/dev/vda")
}

// testConsole: the console is the machine's own, and is logged.
func testConsole(l *testlab.Lab) {
	c := l.Command("shell", "-l", l.Name, "--console", "v1")
	keys, err := c.StdinPipe()
	if err != nil {
		l.T.Fatal(err)
	}
	screen, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		l.T.Fatal(err)
	}
	fmt.Fprintln(keys, "echo it is $((40+2))")
	said := ""
	for b := make([]byte, 1000); !strings.Contains(said, "it is 42"); {
		n, err := screen.Read(b)
		said += string(b[:n])
		if err != nil {
			l.T.Fatalf("the console ends after %q", said)
		}
	}
	_, _ = keys.Write([]byte{0x1d})
	if err := c.Wait(); err != nil {
		l.T.Errorf("leaving the console: %v", err)
	}
	if b, err := os.ReadFile(machine(l, "v1").Log); err != nil || !strings.Contains(string(b), "it is 42") {
		l.T.Errorf("the console's log has %q, %v", b, err)
	}
	if _, e, code := l.Run("shell", "-l", l.Name, "--console", "h1"); code != 2 || !strings.Contains(e, "not a virtual machine") {
		l.T.Errorf("the console of a host: exit code %d, %q", code, e)
	}
}

func testPing(l *testlab.Lab) {
	l.Exec("v1", "ping", "-c", "2", "-W", "60", "h1")
	l.Exec("h1", "ping", "-4", "-c", "2", "-W", "60", "v2")
	l.Exec("h1", "ping", "-6", "-c", "2", "-W", "60", "v1")
	l.Exec("v2", "ping", "-4", "-M", "do", "-s", "1472", "-c", "2", "-W", "60", "v1")
	if o := l.Exec("v2", "ip", "-br", "address", "show", "eth0"); !strings.Contains(o, "10.0.7.7/16") || !strings.Contains(o, "fd00::2/64") {
		l.T.Errorf("v2 has the addresses %q", o)
	}
}

func testIperf3(l *testlab.Lab) {
	if r := l.Iperf3("v1", "h1", "10.0.0.3", "-n", "1M", "-b", "10M").End; r.Sent.Bytes < 1e6 {
		l.T.Errorf("iperf3 has sent %.0f bytes", r.Sent.Bytes)
	}
	// Fewer datagrams than a socket has room for, should its program get no processor.
	if r := l.Iperf3("h1", "v2", "10.0.7.7", "-n", "50K", "-b", "2M", "-u", "-l", "1000").End.Sum; r.Packets < 50 || r.Lost > 0 {
		l.T.Errorf("UDP: %+v", r)
	}
}

// testKernelRDMA: the kernel's own RDMA over the fabric.
func testKernelRDMA(l *testlab.Lab) {
	stop := l.Capture("s1:s2")
	s := l.StartProgram("v2", "rping", "-s", "-a", "10.0.7.7", "-C", "10")
	s.WaitFor(l, "it listens", func() bool { return listensInGuest(l, "v2", "7174") })
	said, code := l.TryRDMA("v1", "rping", "-c", "-a", "10.0.7.7", "-C", "10", "-V", "-v")
	if code != 0 || strings.Count(said, "ping data:") != 10 {
		l.T.Errorf("rping: exit code %d\n%s", code, said)
	}
	if err := s.WaitEnd(l.T); err != nil {
		l.T.Errorf("rping's server: %v\n%s", err, &s.Out)
	}
	if r := l.Exec("v1", "ibv_devinfo", "-d", "rxe0"); !strings.Contains(r, "PORT_ACTIVE") {
		l.T.Errorf("ibv_devinfo says\n%s", r)
	}
	file := stop()
	check := []string{"-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"}
	if bad := testlab.Tshark(l.T, file, append(check, "-Y", "_ws.malformed or ip.checksum.status == 0 or tcp.checksum.status == 0 or udp.checksum.status == 0 or icmpv6.checksum.status == 0")...); len(bad) > 0 {
		l.T.Errorf("tshark finds fault with %d packets, such as %s", len(bad), bad[0])
	}
	if n := len(testlab.Tshark(l.T, file, "-Y", "infiniband.bth.opcode")); n < 120 {
		l.T.Errorf("%d RoCE packets in the capture, want the 125 of rping -C 10", n)
	}
	for _, what := range []string{"infiniband.mad.attributeid == 0x10", "infiniband.bth.opcode == 12", "infiniband.bth.opcode == 10"} {
		if len(testlab.Tshark(l.T, file, "-Y", what)) == 0 {
			l.T.Errorf("no packet with %s: a connection, READs and WRITEs were to be", what)
		}
	}
}

// port returns a port and the lab's time at the same moment.
func port(l *testlab.Lab, name string) (status.Port, units.Time) {
	l.T.Helper()
	s, err := l.Client().Sample(l.T.Context())
	if err != nil {
		l.T.Fatal(err)
	}
	i := slices.IndexFunc(s.Ports, func(p status.Port) bool { return p.Name == name })
	return s.Ports[i], s.Emulated
}

// testDCTCP: Linux's DCTCP keeps the queue at a marking switch short, and its
// CUBIC without ECN fills it.
func testDCTCP(l *testlab.Lab) {
	const bottleneck = "s1:s2"
	// send makes v1 send to v2 until the end of f, which gets the port at the bottleneck from then on.
	send := func(control, ecn string, f func(*testlab.Program, status.Port)) {
		l.T.Helper()
		l.Exec("v1", "sysctl", "-w", "net.ipv4.tcp_ecn="+ecn, "net.ipv4.tcp_congestion_control="+control)
		before, _ := port(l, bottleneck)
		s := l.StartProgram("v2", "iperf3", "-s", "-1")
		l.WaitListening("v2", "5201")
		c := l.StartProgram("v1", "iperf3", "-c", "10.0.7.7", "-t", "3600")
		f(c, before)
		_, _ = c.KillAndRead(), s.KillAndRead()
		l.WaitQuiet()
	}
	send("dctcp", "1", func(c *testlab.Program, before status.Port) {
		var a, b status.Port
		var from, to units.Time
		// Leave out the beginning, when TCP does not know the rate yet.
		c.WaitFor(l, "it knows the rate", func() bool { a, from = port(l, bottleneck); return a.TxBytes > before.TxBytes+600e3 })
		c.WaitFor(l, "it has sent more", func() bool { b, to = port(l, bottleneck); return b.TxBytes > a.TxBytes+1200e3 })
		mean := (b.QueueMean*to.Seconds() - a.QueueMean*from.Seconds()) / (to - from).Seconds()
		if l.T.Logf("DCTCP: mean queue %.0f B, %d marked", mean, b.Marked-before.Marked); mean > 30e3 || b.Marked == before.Marked {
			l.T.Errorf("with DCTCP the queue is %.0f B on average, and %d packets are marked", mean, b.Marked-before.Marked)
		}
	})
	send("cubic", "0", func(c *testlab.Program, before status.Port) {
		c.WaitFor(l, "a long queue", func() bool {
			p, _ := port(l, bottleneck)
			return p.QueueBytes > 60*units.KB
		})
		if p, _ := port(l, bottleneck); p.Marked != before.Marked {
			l.T.Errorf("%d packets without ECN are marked", p.Marked-before.Marked)
		}
	})
}

// testEdge: packets of a virtual machine wait in the machine for an edge service, and none is lost
// there.
func testEdge(l *testlab.Lab) {
	const limit = 4e6
	for _, flags := range [][]string{nil, {"-u", "-b", "15M", "-l", "1000"}} {
		s := l.StartProgram("h1", "iperf3", "-s", "-1")
		l.WaitListening("h1", "5201")
		c := l.StartProgram("v2", append([]string{"iperf3", "-c", "10.0.0.3", "-t", "3600"}, flags...)...)
		var before, after status.Port
		var from, to units.Time
		c.WaitFor(l, "its packets wait for the service", func() bool {
			before, from = port(l, "v2:eth0")
			return before.Edge.QueuePackets > 0
		})
		c.WaitFor(l, "it has sent more", func() bool { after, to = port(l, "v2:eth0"); return after.TxBytes > before.TxBytes+200e3 })
		rate := 8 * float64(after.TxBytes-before.TxBytes+24*(after.TxPackets-before.TxPackets)) / (to - from).Seconds()
		if l.T.Logf("%v: %.2f Mb/s on the wire", flags, rate/1e6); rate > limit*1.02 || after.Dropped != before.Dropped || after.Edge.Service != "limit" {
			l.T.Errorf("%v: %.2f Mb/s on the wire, %d packets were dropped, %+v", flags, rate/1e6, after.Dropped-before.Dropped, after.Edge)
		}
		_, _ = c.KillAndRead(), s.KillAndRead()
		l.WaitQuiet()
	}
}

func testCarrier(l *testlab.Lab) {
	carrier := func(want string) {
		l.T.Helper()
		l.WaitFor("the guest's carrier is "+want, func() bool {
			return strings.TrimSpace(l.Exec("v1", "cat", "/sys/class/net/eth0/carrier")) == want
		})
	}
	l.Must("set", "-l", l.Name, "v1:eth0", "state=down")
	carrier("0")
	l.Must("set", "-l", l.Name, "v1:eth0", "state=up")
	carrier("1")
	l.Exec("v1", "ping", "-c", "1", "-W", "60", "h1")
}

// testKilled: a lab continues without a guest that has ended, and leaves nothing at its end.
func testKilled(l *testlab.Lab) {
	one, two := machine(l, "v1"), machine(l, "v2")
	if err := syscall.Kill(two.PID, syscall.SIGKILL); err != nil {
		l.T.Fatal(err)
	}
	waitGone(l, two.PID)
	l.WaitFor("the lab sees that v2 has ended", func() bool { return !machine(l, "v2").Running })
	l.Exec("v1", "ping", "-c", "1", "-W", "60", "h1")
	l.Exec("h1", "ping", "-4", "-c", "1", "-W", "60", "v1")
	if _, e, code := l.Run("exec", "-l", l.Name, "v2", "--", "true"); code != 1 || !strings.Contains(e, "v2 has ended") {
		l.T.Errorf("exec in a guest that has ended: exit code %d, %q", code, e)
	}
	if !strings.Contains(l.Log(), "the virtual machine v2 has ended") {
		l.T.Errorf("the lab's log has %q", l.Log())
	}
	l.Exec("h1", "python3", "-c", testlab.SendDatagrams, "10.0.0.1", "9999", "7")
	l.WaitQuiet()
	r := l.Down()
	if !r.Accounts.Balanced() {
		l.T.Errorf("accounts %+v", r.Accounts)
	}
	ended, held := map[string]string{}, map[string]uint64{}
	for _, h := range r.Hosts {
		if h.Guest != nil {
			ended[h.Name], held[h.Name] = h.Guest.Ended, h.Guest.Holds
		}
	}
	if len(ended) != 2 || ended["v1:eth0"] != "" || !strings.Contains(ended["v2:eth0"], "killed") {
		l.T.Errorf("the report says of the guests %q", ended)
	}
	if held["v2:eth0"] == 0 {
		l.T.Errorf("the edge service has never made v2 wait: %v", held)
	}
	for _, s := range r.Sockets {
		if s.Host == "v1" && (s.Unopened != 7 || s.Error != "") {
			l.T.Errorf("7 datagrams to a port without a socket: %+v", s)
		}
	}
	if !slices.ContainsFunc(r.Sockets, func(s report.Sockets) bool { return s.Host == "v1" }) {
		l.T.Errorf("%+v", r.Sockets)
	}
	waitGone(l, one.PID)
	testlab.CheckNothingLeft(l.T, l.Name)
}
