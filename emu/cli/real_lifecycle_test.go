package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/sim/units"
)

const pair = `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 100Mbps}
`

// residue lists everything on the machine that has a lab's name.
func residue(t *testing.T, name string) (found []string) {
	t.Helper()
	for _, pattern := range []string{"/run/netns/weft-" + name + "-*", "/run/weft/" + name, "/run/weft/" + name + ".*", "/etc/netns/weft-" + name + "-*"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m...)
	}
	return found
}

// leavesNothing checks that nothing on the machine has a lab's name.
func leavesNothing(t *testing.T, name string) {
	t.Helper()
	if left := residue(t, name); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// pid returns the PID of the lab's process.
func (l *realLab) pid() int {
	l.t.Helper()
	var s lab.Status
	if err := json.Unmarshal([]byte(l.must("ps", "--json", l.name)), &s); err != nil {
		l.t.Fatal(err)
	}
	return s.PID
}

// kill ends the lab's process with SIGKILL.
func (l *realLab) kill() {
	l.t.Helper()
	if err := syscall.Kill(l.pid(), syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
}

// crash kills the lab's process and waits until weft ps shows it as crashed.
func (l *realLab) crash() {
	l.t.Helper()
	l.kill()
	l.becomesTrue("a crash of the lab in weft ps", func() bool {
		o := l.must("ps")
		return strings.Contains(o, l.name) && strings.Contains(o, "crashed")
	})
}

func TestDownLeavesNothing(t *testing.T) {
	l := startLab(t, pair, "ping")
	if len(residue(t, l.name)) == 0 {
		t.Fatal("the test looks for residue in the wrong places")
	}
	// A program that still runs inside ends with its host.
	c := l.server("h1", "sleep", "1000")
	for start := time.Now(); !strings.Contains(l.exec("h1", "ps", "-e"), "sleep"); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatal("sleep does not start")
		}
	}
	l.down()
	leavesNothing(t, l.name)
	ended := make(chan struct{})
	go func() { _, _ = c.Process.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("a program inside a host outlived the lab")
	}
}

func TestCtrlCLeavesNothing(t *testing.T) {
	weft := needReal(t)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	name := fmt.Sprintf("c%d", os.Getpid()%100000)
	if err := os.WriteFile(file, []byte("name: "+name+pair), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(weft, "up", file)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = exec.Command(weft, "down", name).Run() })
	first := make([]byte, 200)
	n, err := out.Read(first)
	if err != nil || !strings.Contains(string(first[:n]), "is up: 2 hosts, 1 switches") {
		t.Fatalf("%v: %q", err, first[:n])
	}
	_ = c.Process.Signal(os.Interrupt)
	rest := new(strings.Builder)
	for b := make([]byte, 4096); ; {
		n, err := out.Read(b)
		rest.Write(b[:n])
		if err != nil {
			break
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if !strings.Contains(rest.String(), "fidelity") {
		t.Errorf("no report at the end:\n%s", rest)
	}
	leavesNothing(t, name)
}

// TestKilledLabIsReplaced: after kill -9 of the lab's process the next up and
// down work, and nothing is left at the end.
func TestKilledLabIsReplaced(t *testing.T) {
	l := startLab(t, pair, "ping")
	l.crash()
	if _, e, code := l.run("exec", "-l", l.name, "h1", "--", "true"); code != 1 || !strings.Contains(e, "weft down "+l.name) {
		t.Errorf("exec in a crashed lab: exit code %d, %q", code, e)
	}
	l.must("up", "-d", l.file)
	l.exec("h1", "ping", "-c", "1", "h2")
	l.crash()
	if o := l.must("down", l.name); !strings.Contains(o, "crashed") {
		t.Errorf("down of a crashed lab says %q", o)
	}
	leavesNothing(t, l.name)
}

// TestKilledLabOfNICsIsReplaced: what the hosts of a killed lab saw of their NICs is
// replaced by what the hosts of the next lab see.
func TestKilledLabOfNICsIsReplaced(t *testing.T) {
	l := startRDMA(t, rdmaPair)
	l.crash()
	l.must("up", "-d", l.file)
	if got := l.exec("h1", "ls", "/sys/class/infiniband/roce0/device/net"); got != "eth0\n" {
		t.Errorf("device/net has %q", got)
	}
	l.down()
	leavesNothing(t, l.name)
}

// TestUpAtOnceAfterKill: a killed owner still holds the lab for a moment, while
// the kernel closes its devices. up and down wait for that.
func TestUpAtOnceAfterKill(t *testing.T) {
	l := startLab(t, pair)
	for range 5 {
		l.kill()
		l.must("up", "-d", l.file)
	}
	l.kill()
	if o := l.must("down", l.name); !strings.Contains(o, "removed what lab "+l.name+" had left behind") {
		t.Errorf("down at once after kill -9 says %q", o)
	}
	leavesNothing(t, l.name)
}

func TestTwoLabsAtOnce(t *testing.T) {
	a := startLab(t, pair, "ping")
	b := startLab(t, pair)
	a.exec("h1", "ping", "-c", "1", "h2")
	b.exec("h1", "ping", "-c", "1", "h2")
	if _, e, code := a.run("exec", "h1", "--", "true"); code != 2 || !strings.Contains(e, "--lab") {
		t.Errorf("exec with two labs and no name: exit code %d, %q", code, e)
	}
	if _, e, code := a.run("up", "-d", a.file); code != 1 || !strings.Contains(e, "is already running") {
		t.Errorf("a second up of the same lab: exit code %d, %q", code, e)
	}
	a.down()
	b.exec("h1", "ping", "-c", "1", "h2")
	if len(residue(t, b.name)) == 0 {
		t.Error("the end of one lab took the other's files")
	}
}

func TestExecIsTransparent(t *testing.T) {
	l := startLab(t, pair, "script")
	in := func(argv ...string) (string, string, int) {
		return l.run(append([]string{"exec", "-l", l.name, "h1", "--"}, argv...)...)
	}
	if _, _, code := in("sh", "-c", "exit 42"); code != 42 {
		t.Errorf("exit code %d, want 42", code)
	}
	if o, e, _ := in("sh", "-c", "echo out; echo err >&2"); o != "out\n" || e != "err\n" {
		t.Errorf("stdout %q, stderr %q", o, e)
	}
	if _, e, code := in("no-such-program"); code != 127 || !strings.Contains(e, "no-such-program") {
		t.Errorf("a missing program: exit code %d, %q", code, e)
	}
	if _, e, code := l.run("exec", "-l", l.name, "h9", "--", "true"); code == 0 || !strings.Contains(e, "h9") {
		t.Errorf("an unknown host: exit code %d, %q", code, e)
	}
	if o, _, _ := in("ls", "/sys/class/net"); strings.TrimSpace(o) != "eth0\nlo" {
		t.Errorf("/sys/class/net has %q", o)
	}
	if o, _, _ := in("getent", "ahostsv4", "h2"); !strings.HasPrefix(o, "10.0.0.2") {
		t.Errorf("h2 resolves to %q", o)
	}
	// ip netns exec sees the same host.
	if o, err := exec.Command("ip", "netns", "exec", "weft-"+l.name+"-h1", "ip", "-br", "addr", "show", "eth0").CombinedOutput(); err != nil || !strings.Contains(string(o), "10.0.0.1/16") {
		t.Errorf("ip netns exec: %v, %s", err, o)
	}
	l.passesOn()
}

// passesOn checks that a signal to weft exec reaches the program, and that a terminal
// stays a terminal.
func (l *realLab) passesOn() {
	l.t.Helper()
	c := l.command("exec", "-l", l.name, "h1", "--", "sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		l.t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 6))
	_ = c.Process.Signal(syscall.SIGTERM)
	if _ = c.Wait(); c.ProcessState.ExitCode() != 7 {
		l.t.Errorf("SIGTERM gave %v, want the program's exit code 7", c.ProcessState)
	}
	tty := exec.Command("script", "-qec", l.weft+" exec -l "+l.name+" h1 -- tty", "/dev/null")
	if l.as != nil {
		l.as(tty)
	}
	if o, e, code := runCommand(l.t, tty); code != 0 || !strings.Contains(o, "/dev/pts/") {
		l.t.Errorf("tty inside a host: exit code %d, %q, %q", code, o, e)
	}
}

// TestSetAndEvents changes a running lab with weft set and through its file.
func TestSetAndEvents(t *testing.T) {
	l := startLab(t, pair+`
events:
  - {at: 200ms, link: "h2:eth0", set: {delay: 30ms}}
`, "ping", "iperf3")
	time.Sleep(300 * time.Millisecond)
	if d := l.ports()["s1:2"].Link.Delay.String(); d != "30ms" {
		t.Errorf("after the event the delay is %s", d)
	}
	if rtt := l.pingMedian("h1", "h2", 5); rtt < 60 || rtt > 90 {
		t.Errorf("round trip %.1f ms, want 60 and a little", rtt)
	}
	l.must("set", "-l", l.name, "h2:eth0", "delay=0")
	if rtt := l.pingMedian("h1", "h2", 5); rtt > 30 {
		t.Errorf("round trip %.1f ms without delay", rtt)
	}
	// One direction only, and the host's shaper follows its link.
	l.must("set", "-l", l.name, "--out", "h1:eth0", "rate=10Mbps")
	p := l.ports()
	if a, b := p["h1:eth0"].Link.Rate.String(), p["s1:1"].Link.Rate.String(); a != "10Mbps" || b != "100Mbps" {
		t.Errorf("rates %s and %s, want 10Mbps out and 100Mbps in", a, b)
	}
	if r := l.iperf3("h1", "h2", "h2", "-t", "1"); r.End.Received.Bits > 11e6 || r.End.Received.Bits < 5e6 {
		t.Errorf("%.1f Mb/s after rate=10Mbps", r.End.Received.Bits/1e6)
	}
	// A link that is down loses its carrier, and recovers.
	l.must("set", "-l", l.name, "h1:eth0", "state=down")
	for i := 0; !strings.Contains(l.exec("h1", "ip", "-br", "link", "show", "eth0"), "NO-CARRIER"); i++ {
		if i == 200 {
			t.Fatal("the host of a link that is down keeps its carrier")
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.must("set", "-l", l.name, "h1:eth0", "state=up", "rate=100Mbps")
	l.pingMedian("h1", "h2", 3)
	// Bad settings are refused and change nothing.
	for _, bad := range [][]string{{"h1:eth0", "los=1%"}, {"h1:eth0", "loss=200%"}, {"h9:eth0", "loss=1%"}, {"h1:eth0", "mtu=100"}, {"h1:eth0", "loss"}} {
		_, e, code := l.run(append([]string{"set", "-l", l.name}, bad...)...)
		if code != 2 || e == "" {
			t.Errorf("set %v: exit code %d, %q", bad, code, e)
		}
	}
	if p := l.ports()["h1:eth0"].Link; p.Loss != 0 || p.MTU != 1500 {
		t.Errorf("refused settings took effect: %+v", p)
	}
}

// pingMedian returns the median round trip in ms; ping retries until it works.
func (l *realLab) pingMedian(from, to string, n int) float64 {
	l.t.Helper()
	var times []float64
	for try := 0; len(times) < n; try++ {
		if try == 100 {
			l.t.Fatalf("%s does not reach %s", from, to)
		}
		out, _, _ := l.run("exec", "-l", l.name, from, "--", "ping", "-4", "-c", "1", "-W", "1", to)
		if _, rest, ok := strings.Cut(out, "time="); ok {
			v, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				l.t.Fatal(err)
			}
			times = append(times, v)
		}
	}
	return median(times)
}

func TestControlSocketIsPrivate(t *testing.T) {
	l := startLab(t, pair)
	s, err := os.Stat("/run/weft/" + l.name + "/" + lab.SocketName)
	if err != nil {
		t.Fatal(err)
	}
	if s.Mode().Perm() != 0o600 {
		t.Errorf("the control socket's mode is %o, want 600", s.Mode().Perm())
	}
}

// TestStrict: a run that must be on time to the nanosecond cannot be. It says
// so and fails.
func TestStrict(t *testing.T) {
	l := startLab(t, "fidelity: {mode: strict, limit: 1ns}\n"+pair, "ping")
	l.exec("h1", "ping", "-c", "3", "-i", "0.01", "h2")
	o, e, code := l.run("down", l.name)
	if code != exitStrict || !strings.Contains(o, "FAILED (strict)") || !strings.Contains(e, "strict") {
		t.Errorf("exit code %d, want %d\n%s%s", code, exitStrict, o, e)
	}
}

// TestUpFor: a lab with a length ends by itself.
func TestUpFor(t *testing.T) {
	weft := needReal(t)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	name := fmt.Sprintf("f%d", os.Getpid()%100000)
	if err := os.WriteFile(file, []byte("name: "+name+pair+"workload: [{cbr: {from: h1, to: h2, rate: 8Mbps, size: 1000B}}]\nduration: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command(weft, "down", name).Run() })
	o, e, code := runWeft(t, weft, "up", "--workload", "--for", "500ms", "--json", file)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, e)
	}
	var r report.Report
	_, body, _ := strings.Cut(o, "{")
	if err := json.Unmarshal([]byte("{"+body), &r); err != nil {
		t.Fatalf("%v\n%s", err, o)
	}
	// Modelled traffic runs in wall-clock time as well: 8 Mb/s are a packet
	// every millisecond, the first at 0 and the last at 500 ms.
	if r.Flows[0].Sent != 501 || r.Emulated.Seconds() != 0.5 {
		t.Errorf("%d packets in %v, want 501 in 500ms", r.Flows[0].Sent, r.Emulated)
	}
	leavesNothing(t, name)
}

// TestOverload: a lab with far more traffic than any machine can carry in real
// time says so while it runs and at its end, keeps its queues and its memory
// bounded, and still answers.
func TestOverload(t *testing.T) {
	l := newLab(t, needReal(t), t.TempDir(), `
topology:
  generate: {star: {hosts: 6, rate: 10Gbps, delay: 1us}}
workload:
  - {cbr: {from: [h3, h4, h5, h6], to: h2, rate: 9Gbps, size: 64B, for: 1h}}
`)
	l.must("up", "-d", "--workload", l.file)
	memory := func() int {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.pid()))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
				n, _ := strconv.Atoi(f[1])
				return n
			}
		}
		t.Fatal("no VmRSS")
		return 0
	}
	// Real time, because the lab cannot keep up with the wall clock.
	time.Sleep(3 * time.Second)
	before := memory()
	time.Sleep(3 * time.Second)
	if after := memory(); after > before+before/4+8<<10 {
		t.Errorf("the emulator had %d KB after 3 s of overload and has %d KB after 6 s", before, after)
	}
	if _, stderr, _ := l.run("ps", l.name); !strings.Contains(stderr, "does not keep up") {
		t.Errorf("weft ps says nothing of the overload: %q", stderr)
	}
	for name, p := range l.ports() {
		if p.QueueMax > p.QueueLimit {
			t.Errorf("%s: the queue was %v long, its limit is %v", name, p.QueueMax, p.QueueLimit)
		}
	}
	r := l.down()
	if !r.Accounts.Balanced() || r.Accounts.Drops["queue-full"] == 0 {
		t.Errorf("accounts %+v", r.Accounts)
	}
	if r.Timing.Kept() || r.Timing.Stood == 0 || !strings.Contains(r.Timing.Overload, "It could carry about") {
		t.Errorf("the report does not say that the machine could not keep up: %+v", r.Timing)
	}
	// At most as late as emulated time may fall behind, plus what the machine
	// itself adds.
	t.Logf("lateness %+v", r.Timing.Lateness)
	if r.Timing.Lateness.Max > 5*units.Second {
		t.Errorf("a packet was %v late: lateness is not bounded", r.Timing.Lateness.Max)
	}
}
