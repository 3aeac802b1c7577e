package experiment

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/experiment"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// realExperiment returns an experiment with real programs: iperf3 over UDP at 5 Mb/s for a number
// of seconds, and a number of pings, over 2 ms.
func realExperiment(seconds, pings string) string {
	return `
lab:
  fidelity: {limit: 10s}
  topology:
    nodes:
      h1: {kind: host}
      h2: {kind: host}
      s1: {kind: switch}
    links:
      - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps, delay: 1ms}
      - {endpoints: ["h2:eth0", "s1:2"], rate: 100Mbps, delay: 1ms}
clock: wall
late: keep
programs:
  - {name: server, host: h2, command: iperf3 -s, server: true, ready: {port: 5201}}
  - {name: client, host: h1, command: iperf3 -c h2 -u -b 5M -t ` + seconds + ` -J, limit: 3600s, read: iperf3}
  - {name: ping, host: h1, command: ping -i 0.1 -c ` + pings + ` h2, at: 100ms, limit: 3600s, read: ping}
record: {every: 10ms, queues: "s1:*"}
measure:
  sent: {of: iperf3, column: sent_bps, stat: sum, where: {program: client}}
  goodput: {of: iperf3, column: goodput_bps, stat: sum}
  rtt: {of: ping, column: rtt_ms, stat: median}
  replies: {of: ping, column: lost, stat: count, where: {lost: 0}}
  delivered: {of: ports, column: rx_bytes, where: {port: "h2:eth0"}, stat: sum}
  samples: {of: queue-series, column: queue_max_bytes, stat: count}
  late: {of: lateness, column: deliveries}
`
}

// experimentCommand writes an experiment file and returns the command that runs it.
func experimentCommand(t *testing.T, text string) (c *exec.Cmd, result string) {
	t.Helper()
	weft, dir := testlab.Need(t, "iperf3", "ping"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c = exec.Command(weft, "experiment", "x.yaml", "-o", "out", "--no-pictures")
	c.Dir = dir
	return c, filepath.Join(dir, "out", "result.json")
}

// process is a process of the machine and the one that has started it.
type process struct{ pid, parent int }

// processes returns all processes of the machine.
func processes(t *testing.T) (all []process) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		text, _ := os.ReadFile(file) // empty if it has ended meanwhile
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		// pid (comm) state ppid
		if f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); err == nil && len(f) > 1 {
			if parent, err := strconv.Atoi(f[1]); err == nil {
				all = append(all, process{pid, parent})
			}
		}
	}
	return all
}

// labOf finds the lab of the cell that a process runs.
func labOf(t *testing.T, pid int) (name string) {
	t.Helper()
	labs, err := netnslab.ListLabs()
	if err != nil {
		t.Fatal(err)
	}
	all := processes(t)
	for _, i := range labs {
		if slices.Contains(all, process{i.PID, pid}) {
			return i.Name
		}
	}
	return ""
}

// TestPrograms_RunInACellAndAreMeasured: real programs run in a cell, and their output is
// measured.
func TestPrograms_RunInACellAndAreMeasured(t *testing.T) {
	t.Parallel()
	c, result := experimentCommand(t, realExperiment("1", "10"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiment.ReadReport(data)
	if err != nil {
		t.Fatal(err)
	}
	// None of these depends on the speed of the machine: a slow one sends less, and later.
	for name, bounds := range map[string][2]float64{
		"sent": {1, 6e6}, "goodput": {1, 6e6}, "rtt": {4, 1e6}, "replies": {10, 10}, "delivered": {1000, 2_000_000}, "samples": {100, 1e9}, "late": {10, 1e6},
	} {
		rows := r.Of(name)
		if x := float64(rows[0].Value); len(rows) != 1 || !(x >= bounds[0] && x <= bounds[1]) {
			t.Errorf("%s is %v, want it from %v to %v", name, x, bounds[0], bounds[1])
		}
	}
	// All cells have been run.
	again := exec.Command(c.Path, c.Args[1:]...)
	again.Dir = c.Dir
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "1 of 1 cells have been run before") {
		t.Errorf("run again: %v\n%s", err, out)
	}
}

// TestPrograms_CellFailsWithItsReason: a cell fails if the machine does not keep up, and if a
// server fails.
func TestPrograms_CellFailsWithItsReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"LateMachine":      {strings.NewReplacer("limit: 10s", "limit: 1ns, share: 0%", "late: keep", "repeat: 2").Replace(realExperiment("1", "10")), "the machine did not keep up in any of 2 runs; the last: not kept: "},
		"FailingServer":    {strings.Replace(realExperiment("600", "6000"), "iperf3 -s,", `iperf3 -s --no-such-option,`, 1), "program server: "},
		"ProgramTakesLong": {strings.Replace(realExperiment("600", "6000"), "limit: 3600s, read: iperf3", "limit: 1s, read: iperf3", 1), "program client: the command \"iperf3 "},
		"UnreadableOutput": {strings.Replace(realExperiment("1", "10"), "read: ping", "read: wrk", 1), "has no output that can be read as wrk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The measures use tables that all of these have.
			head, _, _ := strings.Cut(c.text, "measure:")
			cmd, _ := experimentCommand(t, head+"measure: {x: {of: ports, column: rx_bytes}}\n")
			o, e, code := testlab.RunCommand(t, cmd)
			if code != testlab.ExitFailed || !strings.Contains(o+e, c.want) {
				t.Errorf("exit code %d, want %q:\n%s%s", code, c.want, o, e)
			}
		})
	}
}

// TestPrograms_SIGTERMLeavesNothing: SIGTERM in the middle leaves nothing of the lab behind.
func TestPrograms_SIGTERMLeavesNothing(t *testing.T) {
	t.Parallel()
	c, _ := experimentCommand(t, realExperiment("600", "6000"))
	p := testlab.Launch(t, c)
	name := ""
	p.Await(t, "a lab whose ping runs", func() bool {
		if name == "" {
			name = labOf(t, c.Process.Pid)
		}
		return name != "" && runsIn(name, "h1", "ping")
	})
	if err := c.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.WaitEnd(t)
	if code := c.ProcessState.ExitCode(); code != testlab.ExitSignal+int(unix.SIGTERM) || !strings.Contains(p.Out.String(), "run the same command again") {
		t.Errorf("exit code %d\n%s", code, &p.Out)
	}
	if _, err := netnslab.FindLab(name); err == nil {
		t.Errorf("the lab %s is still there", name)
	}
	for _, host := range []string{"h1", "h2"} {
		if _, err := os.Stat(filepath.Join("/run/netns", netnslab.NamespaceName(name, host))); err == nil {
			t.Errorf("the namespace of %s is still there", host)
		}
	}
}

// runsIn reports whether a program runs in a host of a lab.
func runsIn(lab, host, program string) bool {
	out, _ := exec.Command("ip", "netns", "pids", netnslab.NamespaceName(lab, host)).Output()
	for _, pid := range strings.Fields(string(out)) {
		if comm, _ := os.ReadFile(filepath.Join("/proc", pid, "comm")); strings.TrimSpace(string(comm)) == program {
			return true
		}
	}
	return false
}

// TestPrograms_SendInsteadOfModelledFlows: series of modelled flows have rows in virtual time, and
// none in wall-clock time, where the programs send instead.
func TestPrograms_SendInsteadOfModelledFlows(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(
		"clock: wall", `  workload: [{flow-list: {hosts: [h1, h2], hpcc: "1\n0 1 3 100 100000000 0\n", by: {tcp: {cc: reno}}}}]
clock: [wall, virtual]`,
		"lab:", "lab:\n  duration: 1s",
		`queues: "s1:*"}`, `queues: "s1:2", flows: "h1"}`,
	).Replace(realExperiment("1", "10"))
	head, _, _ := strings.Cut(text, "measure:")
	c, result := experimentCommand(t, head+`measure:
  rows: {of: flow-series, column: goodput_bps, stat: count}
  goodput: {of: flow-series, column: goodput_bps, where: {flow: "tcp *"}, per: flow, over: max}
  sent: {of: queue-series, column: tx_bps, where: {port: "s1:2"}}
`)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiment.ReadReport(data)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name, clock string) float64 {
		for _, s := range r.Of(name) {
			if slices.Contains(s.Levels, clock) {
				return float64(s.Value)
			}
		}
		t.Fatalf("no %s of %s", name, clock)
		return 0
	}
	if n := value("rows", "virtual"); n != 100 {
		t.Errorf("%v rows in virtual time", n)
	}
	if n := value("rows", "wall"); n != 0 {
		t.Errorf("%v rows in wall-clock time", n)
	}
	if g := value("goodput", "virtual"); g < 50e6 || g > 100e6 {
		t.Errorf("%v b/s by the model", g)
	}
	if s := value("sent", "wall"); s <= 0 {
		t.Errorf("programs sent at %v b/s", s)
	}
}
