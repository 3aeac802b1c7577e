package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/sim/units"
)

// stopper returns a function that sends signals to the lab's process, and returns when a stop has
// taken effect. At the end of the test the process is always continued, so that it can be ended.
func stopper(l *testlab.Lab) func(syscall.Signal) {
	l.T.Helper()
	pid := l.PID() // while the lab still answers
	l.T.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	return func(s syscall.Signal) {
		l.T.Helper()
		if err := syscall.Kill(pid, s); err != nil {
			l.T.Fatal(err)
		}
		if s == syscall.SIGSTOP {
			l.WaitFor("the lab's process is stopped", func() bool {
				// The state is behind the name, which is in parentheses.
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				_, state, _ := bytes.Cut(stat, []byte(") "))
				return err == nil && len(state) > 0 && state[0] == 'T'
			})
		}
	}
}

// TestStoppedLab_IsReported: while a lab's process is stopped every command says so
// instead of waiting for ever; when it continues, the lab says for how long it
// did not run and does not blame the load.
func TestStoppedLab_IsReported(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t), t.TempDir(), `
topology:
  generate: {star: {hosts: 4, rate: 1Gbps, delay: 1us}}
  kinds: {host: {nic: roce}}
workload:
  - {cbr: {from: [h3, h4], to: h2, rate: 10Mbps, size: 1000B, for: 1h}}
`)
	l.Must("up", "-d", "--workload", l.File)
	signal := stopper(l)
	ran := time.Now()
	l.Ports() // so that the engine has run since then
	signal(syscall.SIGSTOP)
	stopped := time.Now()
	for _, args := range []string{
		"ps", "ps --ports", "top --once --lab", "set s1:h1 loss=1% --lab", "nic h1 --lab", "capture s1:h1 -w /dev/null --lab",
	} {
		o, e, code := l.Run(append(strings.Fields(args), l.Name)...)
		if code != testlab.ExitFailed && code != testlab.ExitBadInput || o != "" || !strings.Contains(e, "does not answer: it is stopped (SIGSTOP") || !strings.Contains(e, "kill -CONT") {
			t.Errorf("weft %s: exit code %d\n%s%s", args, code, o, e)
		}
	}
	// The columns are as wide as the longest name of all existing labs.
	if o := l.Must("ps"); !regexp.MustCompile(`(?m)^` + l.Name + ` +stopped `).MatchString(o) {
		t.Errorf("weft ps:\n%s", o)
	}
	minStop := units.FromDuration(time.Since(stopped))
	signal(syscall.SIGCONT)
	if o := l.Must("ps", l.Name); !strings.Contains(o, "h1:eth0") {
		t.Errorf("weft ps after it went on:\n%s", o)
	}
	maxStop := units.FromDuration(time.Since(ran))
	l.WaitFor("the log says for how long the lab did not run", func() bool { return strings.Contains(l.Log(), "did not run for") })
	if said := l.Log(); !strings.Contains(said, "its process was stopped (SIGSTOP") || strings.Contains(said, "lower the rates") {
		t.Errorf("the log says:\n%s", said)
	}
	r := l.Down()
	// What the engine would have slept when it was stopped is taken off: less than the gap of
	// 0.4 ms between two packets, and 10 ms of tolerance.
	if a := r.Timing.Absent; a > maxStop || a < minStop-20*units.Millisecond {
		t.Errorf("the engine was stopped for %v to %v, and the report says %v", minStop, maxStop, a)
	}
	if !strings.HasPrefix(r.Timing.Overload, "the engine did not run for") || strings.Contains(r.Timing.Overload, "lower the rates") {
		t.Errorf("the report says %q", r.Timing.Overload)
	}
}

// TestStoppedLab_CtrlCEndsACapture: Ctrl-C ends a capture that waits for a stopped lab.
func TestStoppedLab_CtrlCEndsACapture(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts)
	signal := stopper(l)
	file := filepath.Join(t.TempDir(), "c.pcapng")
	c := l.Command("capture", "s1:1", "-w", file, "--lab", l.Name)
	said := new(strings.Builder)
	c.Stderr = said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	l.WaitFor("the header of the capture", func() bool {
		i, err := os.Stat(file)
		return err == nil && i.Size() > 0
	})
	signal(syscall.SIGSTOP)
	_ = c.Process.Signal(syscall.SIGINT)
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "the capture was cut short") || !strings.Contains(said.String(), "it is stopped") {
		t.Errorf("%v, %s", err, said)
	}
}

// TestStoppedLab_DownEndsIt: a stopped lab ends cleanly, with its report.
func TestStoppedLab_DownEndsIt(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts)
	signal := stopper(l)
	signal(syscall.SIGSTOP)
	o, e, code := l.Run("down", l.Name)
	if code != 0 || !strings.Contains(o, "fidelity") || !strings.Contains(e, "is stopped: resuming it to end the lab") {
		t.Errorf("exit code %d\n%s%s", code, o, e)
	}
	testlab.CheckNothingLeft(t, l.Name)
}
