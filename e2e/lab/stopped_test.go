package lab

import (
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

// stopper returns a function that sends signals to the lab's process. At the
// end of the test the process is always continued, so that it can be ended.
func stopper(l *testlab.Lab) func(syscall.Signal) {
	l.T.Helper()
	pid := l.PID() // while the lab still answers
	l.T.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	return func(s syscall.Signal) {
		l.T.Helper()
		if err := syscall.Kill(pid, s); err != nil {
			l.T.Fatal(err)
		}
	}
}

// TestStoppedLab: while a lab's process is stopped every command says so
// instead of waiting for ever; when it continues, the lab says for how long it
// did not run and does not blame the load.
func TestStoppedLab(t *testing.T) {
	l := testlab.New(t, testlab.Need(t), t.TempDir(), `
topology:
  generate: {star: {hosts: 4, rate: 1Gbps, delay: 1us}}
  kinds: {host: {nic: roce}}
workload:
  - {cbr: {from: [h3, h4], to: h2, rate: 10Mbps, size: 1000B, for: 1h}}
`)
	l.Must("up", "-d", "--workload", l.File)
	log := filepath.Join("/run/weft", l.Name, "log")
	signal := stopper(l)
	stopped := time.Now()
	signal(syscall.SIGSTOP)
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
	signal(syscall.SIGCONT)
	gone := units.FromDuration(time.Since(stopped))
	if o := l.Must("ps", l.Name); !strings.Contains(o, "h1:eth0") {
		t.Errorf("weft ps after it went on:\n%s", o)
	}
	for range 600 { // the monitor reports once a second
		if b, _ := os.ReadFile(log); strings.Contains(string(b), "did not run for") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if said := string(b); !strings.Contains(said, "its process was stopped (SIGSTOP") || strings.Contains(said, "lower the rates") {
		t.Errorf("the log says:\n%s", said)
	}
	r := l.Down()
	// It is less only by the time that sending and noticing the signals took.
	if a := r.Timing.Absent; a > gone || a < gone/2 {
		t.Errorf("the engine was stopped for %v, and the report says %v", gone, a)
	}
	if !strings.HasPrefix(r.Timing.Overload, "the engine did not run for") || strings.Contains(r.Timing.Overload, "lower the rates") {
		t.Errorf("the report says %q", r.Timing.Overload)
	}
}

// TestCaptureOfStoppedLab: Ctrl-C ends a capture that waits for a stopped lab.
func TestCaptureOfStoppedLab(t *testing.T) {
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
	for range 600 { // its header exists once it has started
		if i, err := os.Stat(file); err == nil && i.Size() > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	signal(syscall.SIGSTOP)
	_ = c.Process.Signal(syscall.SIGINT)
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "the capture was cut short") || !strings.Contains(said.String(), "it is stopped") {
		t.Errorf("%v, %s", err, said)
	}
}

// TestDownOfStoppedLab: a stopped lab ends cleanly, with its report.
func TestDownOfStoppedLab(t *testing.T) {
	l := testlab.Start(t, testlab.TwoHosts)
	signal := stopper(l)
	signal(syscall.SIGSTOP)
	o, e, code := l.Run("down", l.Name)
	if code != 0 || !strings.Contains(o, "fidelity") || !strings.Contains(e, "is stopped: resuming it to end the lab") {
		t.Errorf("exit code %d\n%s%s", code, o, e)
	}
	testlab.CheckNothingLeft(t, l.Name)
}
