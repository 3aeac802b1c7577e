package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// startDilated starts a lab with a dilation.
func startDilated(t *testing.T, dilation int, text string, programs ...string) *testlab.Lab {
	t.Helper()
	weft := testlab.Need(t, append(programs, "gcc")...)
	if err := testlab.BuildSlowClock(); err != nil {
		t.Fatal(err)
	}
	l := testlab.New(t, weft, t.TempDir(), text)
	said := l.Must("up", "-d", "--dilation", strconv.Itoa(dilation), l.File)
	if want := fmt.Sprintf("dilation %d:", dilation); dilation > 1 && !strings.Contains(said, want) {
		t.Errorf("weft up does not say the dilation: %q", said)
	}
	return l
}

// dilated is exec with the lab's clock.
func dilated(l *testlab.Lab, host string, argv ...string) string {
	l.T.Helper()
	return l.Must(append([]string{"exec", "--dilated", "-l", l.Name, host, "--"}, argv...)...)
}

// dilatedPair is two hosts with a round trip of 2 ms.
const dilatedPair = `
topology:
  kinds: {host: {nic: roce}, link: {rate: 100Mbps, delay: 500us}}
  nodes: {h1: {kind: host, address: 10.0.0.1/24}, h2: {kind: host, address: 10.0.0.2/24}, s1: {kind: switch}}
  links: [{endpoints: ["h1:eth0", "s1:1"]}, {endpoints: ["h2:eth0", "s1:2"]}]
`

var pingRTT = regexp.MustCompile(`= ([0-9.]+)/`)

// shortest returns the shortest round trip in ping's summary, in ms.
func shortest(t *testing.T, out string) float64 {
	t.Helper()
	m := pingRTT.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("ping says %q", out)
	}
	rtt, _ := strconv.ParseFloat(m[1], 64)
	return rtt
}

// TestDilation_ProgramsSeeEmulatedTime: a lab at dilation 20 reports emulated time, and a program sees real
// time, or emulated time with --dilated.
func TestDilation_ProgramsSeeEmulatedTime(t *testing.T) {
	t.Parallel()
	const dilation = 20
	l := startDilated(t, dilation, dilatedPair, "ping")
	real := shortest(t, l.Exec("h1", "ping", "-q", "-c", "5", "-i", "0.2", "10.0.0.2"))
	seen := shortest(t, dilated(l, "h1", "ping", "-q", "-c", "5", "-i", "0.05", "10.0.0.2"))
	// 40 ms of real time and 2 ms of emulated time, and the lateness of the machine.
	if real < 2*dilation {
		t.Errorf("without --dilated ping says %v ms, want at least %v", real, 2*dilation)
	}
	if seen < 2 || seen >= 2*dilation {
		t.Errorf("with --dilated ping says %v ms, want 2 and far less than %v", seen, 2*dilation)
	}
	if got := l.Exec("h1", "ip", "route", "show", "10.0.0.0/24"); !strings.Contains(got, "rto_min lock 4s") {
		t.Errorf("the route's smallest timeout is not 20 times 200 ms: %s", got)
	}
	if got := l.Exec("h1", "cat", "/proc/sys/net/ipv4/neigh/eth0/retrans_time_ms"); strings.TrimSpace(got) != "20000" {
		t.Errorf("neighbours are asked again after %s ms", got)
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ps"}, "DILATION"},
		{[]string{"ps", l.Name}, "dilation 20"},
		{[]string{"ps", "--json", l.Name}, `"dilation": 20`},
		{[]string{"top", "--once", l.Name}, "wall clock, dilation 20"},
		{[]string{"metrics", l.Name}, `weft_lab_dilation{lab="` + l.Name + `"} 20`},
	} {
		if got, said, code := l.Run(c.args...); c.args[0] != "metrics" && (code != 0 || !strings.Contains(got, c.want)) {
			t.Errorf("weft %v: %d %q %q, without %q", c.args, code, got, said, c.want)
		}
	}
	// Programs that cannot see the lab's clock are refused, not run in real time instead.
	if _, said, code := l.Run("exec", "--dilated", "-l", l.Name, "h1", "--", l.Weft, "version"); code == 0 || !strings.Contains(said, "takes the time from the kernel") {
		t.Errorf("a Go program with --dilated: %d %q", code, said)
	}
	without := l.Command("exec", "--dilated", "-l", l.Name, "h1", "--", "date")
	without.Env = append(os.Environ(), "WEFT_SLOWCLOCK=/nowhere/slowclock.so")
	if _, said, code := testlab.RunCommand(t, without); code == 0 || !strings.Contains(said, "scripts/slowclock.sh builds") {
		t.Errorf("without the library: %d %q", code, said)
	}
	r := l.Down()
	if r.Dilation != dilation || r.Timing.Dilation != dilation {
		t.Errorf("the report says dilation %d, %d", r.Dilation, r.Timing.Dilation)
	}
	if cpu := r.Timing.CPU; cpu > 3 {
		t.Errorf("%v cores were used", cpu)
	}
}

// TestDilation_BadValuesAreRefused: with a bad --dilation nothing is created.
func TestDilation_BadValuesAreRefused(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	for _, bad := range []string{"0", "2.5", "1000001", "x"} {
		if _, said, code := testlab.RunWeft(t, weft, "up", "--dilation", bad, "none.yaml"); code == 0 || !strings.Contains(said, "whole number from 1 to 1000000") {
			t.Errorf("--dilation %s: %d %q", bad, code, said)
		}
	}
}

// TestDilations_GiveTheSameGoodputAndMarks: iperf3 with the lab's clock reports the goodput of the
// link at dilation 10 and 50, and the switch marks the share of the packets that it must mark. What
// comes depends on when the program gets a processor, less at a higher dilation;
// scripts/bench/dilation.sh compares the shares, at dilation 1 too.
func TestDilations_GiveTheSameGoodputAndMarks(t *testing.T) {
	t.Parallel()
	const text = `
topology:
  kinds:
    host: {queue: {limit: 4MB}}
    switch: {queue: {limit: 1MB, mark: {red: {kmin: 10KB, kmax: 200KB, pmax: 100%}}}}
    link: {rate: 50Mbps, delay: 100us}
  nodes: {h1: {kind: host, address: 10.0.0.1/24}, h2: {kind: host, address: 10.0.0.2/24}, s1: {kind: switch}}
  links: [{endpoints: ["h1:eth0", "s1:1"]}, {endpoints: ["h2:eth0", "s1:2"], rate: 20Mbps}]
`
	testlab.Beside(t, 2, []int{50, 10}, strconv.Itoa, func(t *testing.T, dilation int) {
		l := startDilated(t, dilation, text, "iperf3")
		server := l.Command("exec", "--dilated", "-l", l.Name, "h2", "--", "iperf3", "-s", "-1")
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Process.Kill() })
		l.WaitListening("h2", "5201")
		// 24 Mb/s to a link of 20 Mb/s, for 0.3 s.
		stop := l.Capture("s1:1", "--in", "-s", "100")
		out := dilated(l, "h1", "iperf3", "-J", "-u", "-c", "10.0.0.2", "-b", "24M", "-l", "1200", "-n", "900000", "-S", "2")
		_ = server.Wait()
		arrivals := stop()
		var got testlab.Iperf
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Error != "" {
			t.Fatalf("%v %s\n%s", err, got.Error, out)
		}
		p := testlab.PortOf(t, l.Down(), "s1:2")
		goodput := got.End.Received.Bits
		t.Logf("goodput %.3f Mb/s, %d marked of %d", goodput/1e6, p.Marked, p.TxPackets)
		// 1200 of 1266 bytes on the wire are payload. A program that took the time from the machine
		// would see a tenth or a fiftieth of it.
		if goodput < 0.5*19e6 || goodput > 1.1*19e6 {
			t.Errorf("goodput %.3f Mb/s, want 19", goodput/1e6)
		}
		// With headers 25.3 Mb/s come, and the queue grows to 195 KB if the program is never late.
		red := congestion.RED{KMin: 10 * units.KB, KMax: 200 * units.KB, PMax: 1}
		marks, variance := 0.0, 0.0
		replayQueue(t, arrivals, 20e6, 1_000_000, func(a arrival) {
			if a.ecn != "" && a.ecn != "0" {
				share := red.MarkProbability(units.Bytes(a.length))
				marks, variance = marks+share, variance+share*(1-share)
			}
		})
		// Four standard deviations. Whether the queue is counted with the packet or without
		// it is at most 1242 of 190000 bytes for each.
		if bound := 4*math.Sqrt(variance) + 0.0066*float64(p.TxPackets); math.Abs(float64(p.Marked)-marks) > bound || marks < 100 {
			t.Errorf("%d packets were marked, and RED marks %.1f within %.1f of what came", p.Marked, marks, bound)
		}
	})
}

// TestDilatedPerftest_ReportsTheRateOfItsLink: ib_write_bw with the lab's clock reports the rate of
// the emulated link, though it counts cycles of the processor.
func TestDilatedPerftest_ReportsTheRateOfItsLink(t *testing.T) {
	t.Parallel()
	const dilation = 10
	testlab.Need(t, "gcc")
	testlab.NeedVerbs(t)
	l := startDilated(t, dilation, dilatedPair, "ib_write_bw")
	run := []string{"ib_write_bw", "-F", "-x", "0", "-s", "65536", "-n", "40"}
	server := l.Command(append([]string{"exec", "--dilated", "-l", l.Name, "h2", "--"}, run...)...)
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill() })
	l.WaitListening("h2", "18515")
	out := dilated(l, "h1", append(run, "10.0.0.2")...)
	if err := server.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	m := regexp.MustCompile(`(?m)^ 65536 +40 +([0-9.]+) +([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("ib_write_bw says %s", out)
	}
	mean, _ := strconv.ParseFloat(m[2], 64)
	// 100 Mb/s are 11.9 MiB/s, of which headers take some.
	if mean < 8 || mean > 12 {
		t.Errorf("%v MiB/s over a link of 11.9:\n%s", mean, out)
	}
}

// TestSlowClock_SlowsEveryWait: every kind of wait that the library knows is slowed, and the
// clocks that it shows agree. The clock is a file made by the test.
func TestSlowClock_SlowsEveryWait(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIPPED: this test needs gcc: run scripts/test.sh, which installs it")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out tests with real programs")
	}
	dir := t.TempDir()
	if out, err := exec.Command("../../scripts/slowclock.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	waits := filepath.Join(dir, "waits")
	if out, err := exec.Command("gcc", "-O2", "-D_FORTIFY_SOURCE=2", "-pthread", "-o", waits, "../../netns-lab/slowclock/testdata/waits.c", "-lrt").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const dilation = 5
	file := shareClock(t, dir, dilation)
	c := exec.Command(waits)
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(dir, "slowclock.so"), "WEFT_CLOCK="+file)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ways := 0
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "# clocks disagree") {
			t.Error(line)
		}
		var name string
		var seen, real float64 // us
		if n, _ := fmt.Sscan(line, &name, &seen, &real); n != 3 || strings.HasPrefix(line, "#") {
			continue
		}
		ways++
		// 10 ms of the program's time; the machine may be late, never early. The real clock is
		// read before the other at the start, and after it at the end.
		if seen < 9990 || real < dilation*(seen-10) {
			t.Errorf("%s: %v us by the program's clock, %v us of real time", name, seen, real)
		}
	}
	if ways < 30 {
		t.Errorf("only %d ways to wait were tried:\n%s", ways, out)
	}
	// A program whose lab is gone does not run with the wrong clock.
	c = exec.Command("date")
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(dir, "slowclock.so"), "WEFT_CLOCK="+file+".gone")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "cannot be opened") {
		t.Errorf("without a clock: %v %s", err, out)
	}
}

// shareClock creates the file of a clock that starts now.
func shareClock(t *testing.T, dir string, dilation int) string {
	t.Helper()
	file := filepath.Join(dir, "clock")
	if err := wall.NewClock(dilation).ShareFile(file); err != nil {
		t.Fatal(err)
	}
	return file
}
