package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/sim/units"
)

func TestDown_LeavesNothing(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts, "ping")
	if len(testlab.Residue(t, l.Name)) == 0 {
		t.Fatal("the test looks for residue in the wrong places")
	}
	// A program that still runs inside ends with its host.
	c := l.StartServer("h1", "sleep", "1000")
	l.WaitFor("sleep runs in h1", func() bool { return strings.Contains(l.Exec("h1", "ps", "-e"), "sleep") })
	l.Down()
	testlab.CheckNothingLeft(t, l.Name)
	ended := make(chan struct{})
	go func() { _, _ = c.Process.Wait(); close(ended) }()
	await.Receive(t, "the end of a program inside a host", ended)
}

func TestCtrlC_LeavesNothing(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	name := fmt.Sprintf("c%d", os.Getpid()%100000)
	if err := os.WriteFile(file, []byte("name: "+name+testlab.TwoHosts), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(weft, "up", file)
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = exec.Command(weft, "down", name).Run() })
	out := bufio.NewReader(pipe)
	if first, err := out.ReadString('\n'); err != nil || !strings.Contains(first, "is up: 2 hosts, 1 switches") {
		t.Fatalf("%v: %q", err, first)
	}
	_ = c.Process.Signal(os.Interrupt)
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if !strings.Contains(string(rest), "fidelity") {
		t.Errorf("no report at the end:\n%s", rest)
	}
	testlab.CheckNothingLeft(t, name)
}

// TestCtrlC_WhileADetachedLabStartsIsNoSuccess: weft up -d that is interrupted says so with its
// exit code, not that the lab is up, and leaves nothing, however far the lab has come.
func TestCtrlC_WhileADetachedLabStartsIsNoSuccess(t *testing.T) {
	t.Parallel()
	weft, dir := testlab.Need(t), t.TempDir()
	for i, ready := range []string{"ready: {file: " + filepath.Join(dir, "never") + "}", "ready: {file: " + filepath.Join(dir, "started") + "}"} {
		started := filepath.Join(dir, fmt.Sprint("started", i))
		l := testlab.New(t, weft, t.TempDir(), testlab.TwoHostsRunning(`{run: "touch `+started+`; exec sleep 1000", `+ready+`}`, ""))
		c := exec.Command(weft, "up", "-d", l.File)
		var out, said bytes.Buffer
		c.Stdout, c.Stderr = &out, &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		l.WaitFor("the host's program runs", func() bool {
			_, err := os.Stat(started)
			return err == nil
		})
		_ = c.Process.Signal(os.Interrupt)
		if i == 1 { // the lab comes up while it is told to end
			if err := os.WriteFile(filepath.Join(dir, "started"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Wait()
		code, up := c.ProcessState.ExitCode(), strings.Contains(out.String(), "is up")
		if i == 1 && code == 0 && up { // it was up before the signal was seen, so it stays up
			l.Must("down", l.Name)
		} else if code != 130 || up {
			t.Errorf("exit code %d, want 130; it said %q and %q", code, out.String(), said.String())
		}
		l.WaitFor("nothing of the lab is left", func() bool { return len(testlab.Residue(t, l.Name)) == 0 })
	}
}

// TestKilledLab_IsReplaced: after kill -9 of the lab's process the next up and
// down work, and nothing is left at the end.
func TestKilledLab_IsReplaced(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts, "ping")
	l.Crash()
	if _, e, code := l.Run("exec", "-l", l.Name, "h1", "--", "true"); code != 1 || !strings.Contains(e, "weft down "+l.Name) {
		t.Errorf("exec in a crashed lab: exit code %d, %q", code, e)
	}
	l.Must("up", "-d", l.File)
	l.Ping("h1", 1, "h2")
	l.Crash()
	if o := l.Must("down", l.Name); !strings.Contains(o, "crashed") {
		t.Errorf("down of a crashed lab says %q", o)
	}
	testlab.CheckNothingLeft(t, l.Name)
}

// TestKilledLab_OfNICsIsReplaced: what the hosts of a killed lab saw of their NICs is
// replaced by what the hosts of the next lab see.
func TestKilledLab_OfNICsIsReplaced(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs)
	l.Crash()
	l.Must("up", "-d", l.File)
	if got := l.Exec("h1", "ls", "/sys/class/infiniband/roce0/device/net"); got != "eth0\n" {
		t.Errorf("device/net has %q", got)
	}
	l.Down()
	testlab.CheckNothingLeft(t, l.Name)
}

// TestKilledLab_UpWaitsUntilItIsGone: a killed owner still holds the lab for a moment, while
// the kernel closes its devices. up and down wait for that.
func TestKilledLab_UpWaitsUntilItIsGone(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts)
	for range 5 {
		l.Kill()
		l.Must("up", "-d", l.File)
	}
	l.Kill()
	if o := l.Must("down", l.Name); !strings.Contains(o, "removed what lab "+l.Name+" had left behind") {
		t.Errorf("down at once after kill -9 says %q", o)
	}
	testlab.CheckNothingLeft(t, l.Name)
}

func TestTwoLabs_RunAtOnce(t *testing.T) {
	t.Parallel()
	a := testlab.Start(t, testlab.TwoHosts, "ping")
	b := testlab.Start(t, testlab.TwoHosts)
	a.Ping("h1", 1, "h2")
	b.Ping("h1", 1, "h2")
	if _, e, code := a.Run("exec", "h1", "--", "true"); code != 2 || !strings.Contains(e, "--lab") {
		t.Errorf("exec with two labs and no name: exit code %d, %q", code, e)
	}
	if _, e, code := a.Run("up", "-d", a.File); code != 1 || !strings.Contains(e, "is already running") {
		t.Errorf("a second up of the same lab: exit code %d, %q", code, e)
	}
	a.Down()
	b.Ping("h1", 1, "h2")
	if len(testlab.Residue(t, b.Name)) == 0 {
		t.Error("the end of one lab took the other's files")
	}
}

func TestExec_IsTransparent(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts, "script")
	in := func(argv ...string) (string, string, int) {
		return l.Run(append([]string{"exec", "-l", l.Name, "h1", "--"}, argv...)...)
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
	if _, e, code := l.Run("exec", "-l", l.Name, "h9", "--", "true"); code == 0 || !strings.Contains(e, "h9") {
		t.Errorf("an unknown host: exit code %d, %q", code, e)
	}
	if o, _, _ := in("ls", "/sys/class/net"); strings.TrimSpace(o) != "eth0\nlo" {
		t.Errorf("/sys/class/net has %q", o)
	}
	if o, _, _ := in("getent", "ahostsv4", "h2"); !strings.HasPrefix(o, "10.0.0.2") {
		t.Errorf("h2 resolves to %q", o)
	}
	// ip netns exec sees the same host.
	if o, err := exec.Command("ip", "netns", "exec", "weft-"+l.Name+"-h1", "ip", "-br", "addr", "show", "eth0").CombinedOutput(); err != nil || !strings.Contains(string(o), "10.0.0.1/16") {
		t.Errorf("ip netns exec: %v, %s", err, o)
	}
	l.CheckSignalsAndTerminal()
}

// TestSetAndEvents_ChangeARunningLab changes a running lab with weft set and through its file.
func TestSetAndEvents_ChangeARunningLab(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts+`
events:
  - {at: 200ms, link: "h2:eth0", set: {delay: 30ms}}
`, "ping", "iperf3")
	l.WaitFor("the event sets the delay", func() bool { return l.Ports()["s1:2"].Link.Delay.String() == "30ms" })
	l.WaitFor("a round trip of 60 ms and little more", func() bool {
		rtt := l.MinRTT("h1", "h2", 1)
		if rtt < 60 {
			t.Fatalf("round trip %.1f ms over a link with 30 ms each way", rtt)
		}
		return rtt < 70
	})
	l.Must("set", "-l", l.Name, "h2:eth0", "delay=0")
	l.WaitFor("a round trip without delay", func() bool { return l.MinRTT("h1", "h2", 1) < 10 })
	// One direction only, and the host's shaper follows its link.
	l.Must("set", "-l", l.Name, "--out", "h1:eth0", "rate=10Mbps")
	p := l.Ports()
	if a, b := p["h1:eth0"].Link.Rate.String(), p["s1:1"].Link.Rate.String(); a != "10Mbps" || b != "100Mbps" {
		t.Errorf("rates %s and %s, want 10Mbps out and 100Mbps in", a, b)
	}
	// In emulated time: iperf3's own figure has what the machine adds.
	stop := l.Capture("s1:1", "--in", "-s", "100", "-f", "tcp")
	l.Iperf3("h1", "h2", "h2", "-n", "1M")
	if bits := rateIn(t, stop()); bits > 10e6 {
		t.Errorf("%.2f Mb/s after rate=10Mbps", bits/1e6)
	}
	// A link that is down loses its carrier, and recovers.
	l.Must("set", "-l", l.Name, "h1:eth0", "state=down")
	l.WaitFor("the host of a link that is down loses its carrier", func() bool {
		return strings.Contains(l.Exec("h1", "ip", "-br", "link", "show", "eth0"), "NO-CARRIER")
	})
	l.Must("set", "-l", l.Name, "h1:eth0", "state=up", "rate=100Mbps")
	l.MinRTT("h1", "h2", 3)
	// Bad settings are refused and change nothing.
	for _, bad := range [][]string{{"h1:eth0", "los=1%"}, {"h1:eth0", "loss=200%"}, {"h9:eth0", "loss=1%"}, {"h1:eth0", "mtu=100"}, {"h1:eth0", "loss"}} {
		_, e, code := l.Run(append([]string{"set", "-l", l.Name}, bad...)...)
		if code != 2 || e == "" {
			t.Errorf("set %v: exit code %d, %q", bad, code, e)
		}
	}
	if p := l.Ports()["h1:eth0"].Link; p.Loss != 0 || p.MTU != 1500 {
		t.Errorf("refused settings took effect: %+v", p)
	}
}

func TestControlSocket_IsPrivate(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts)
	s, err := os.Stat("/run/weft/" + l.Name + "/" + lab.SocketName)
	if err != nil {
		t.Fatal(err)
	}
	if s.Mode().Perm() != 0o600 {
		t.Errorf("the control socket's mode is %o, want 600", s.Mode().Perm())
	}
}

// TestStrict_LateRunFails: a run that must be on time to the nanosecond cannot be. It says
// so and fails.
func TestStrict_LateRunFails(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, "fidelity: {mode: strict, limit: 1ns}\n"+testlab.TwoHosts, "ping")
	l.Ping("h1", 3, "h2")
	o, e, code := l.Run("down", l.Name)
	if code != testlab.ExitStrict || !strings.Contains(o, "FAILED (strict)") || !strings.Contains(e, "strict") {
		t.Errorf("exit code %d, want %d\n%s%s", code, testlab.ExitStrict, o, e)
	}
}

// TestUpFor_EndsByItself: a lab with a length ends by itself.
func TestUpFor_EndsByItself(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	name := fmt.Sprintf("f%d", os.Getpid()%100000)
	if err := os.WriteFile(file, []byte("name: "+name+testlab.TwoHosts+"workload: [{cbr: {from: h1, to: h2, rate: 8Mbps, size: 1000B}}]\nduration: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command(weft, "down", name).Run() })
	o, e, code := testlab.RunWeft(t, weft, "up", "--workload", "--for", "500ms", "--json", file)
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
	testlab.CheckNothingLeft(t, name)
}

// TestUp_NotesAnIdleWorkloadOnce: a lab whose workload does not send says so, unless the command says
// that it is meant.
func TestUp_NotesAnIdleWorkloadOnce(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	name := fmt.Sprintf("i%d", os.Getpid()%100000)
	if err := os.WriteFile(file, []byte("name: "+name+testlab.TwoHosts+"workload: [{cbr: {from: h1, to: h2, rate: 8Mbps, size: 1000B}}]\nduration: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command(weft, "down", name).Run() })
	for _, c := range []struct {
		args  []string
		notes int
	}{{nil, 1}, {[]string{"-d"}, 1}, {[]string{"--workload=false"}, 0}, {[]string{"--workload=false", "-d"}, 0}} {
		_, e, code := testlab.RunWeft(t, weft, slices.Concat([]string{"up", "--for", "10ms", file}, c.args)...)
		if n := strings.Count(e, "does not send"); code != 0 || n != c.notes {
			t.Errorf("up %v: exit code %d, %d notes, want %d:\n%s", c.args, code, n, c.notes, e)
		}
		testlab.RunWeft(t, weft, "down", name) // if it is still there
	}
}

// TestOverload_IsReportedAndBounded: a lab with far more traffic than any machine can carry in real
// time says so while it runs and at its end, keeps its queues and its memory
// bounded, and still answers.
func TestOverload_IsReportedAndBounded(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t), t.TempDir(), `
topology:
  generate: {star: {hosts: 6, rate: 10Gbps, delay: 1us}}
workload:
  - {cbr: {from: [h3, h4, h5, h6], to: h2, rate: 9Gbps, size: 64B, for: 1h}}
`)
	l.Must("up", "-d", "--workload", l.File)
	memory := func() int {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.PID()))
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
	l.WaitFor("weft ps says that the lab does not keep up", func() bool {
		_, stderr, _ := l.Run("ps", l.Name)
		return strings.Contains(stderr, "does not keep up")
	})
	dropped := func() uint64 { return l.Ports()["s1:h2"].Dropped }
	before, from := memory(), dropped()
	l.WaitFor("a million packets more that found the queue full", func() bool { return dropped() > from+1_000_000 })
	if after := memory(); after > before+before/4+8<<10 {
		t.Errorf("the emulator had %d KB when it was overloaded, and has %d KB a million packets later", before, after)
	}
	for name, p := range l.Ports() {
		if p.QueueMax > p.QueueLimit {
			t.Errorf("%s: the queue was %v long, its limit is %v", name, p.QueueMax, p.QueueLimit)
		}
	}
	r := l.Down()
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
