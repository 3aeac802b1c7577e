package netnslab

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ownLab makes the lab args[0] with a host for each further argument and holds it;
// with "churn" as the second argument it makes and closes the lab for ever.
func ownLab(args []string) error {
	names := args[1:]
	churn := names[0] == "churn"
	if churn {
		names = names[1:]
	}
	var hosts []Host
	for i, n := range names {
		h := hostN(i+1, TAP, 0)
		h.Name = n
		hosts = append(hosts, h)
	}
	for {
		l, err := Create(args[0], Info{File: "crash.yaml"}, hosts)
		if err != nil {
			return err
		}
		fmt.Println("made")
		if !churn {
			select {}
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
}

// startOwner returns when the helper has made its lab once.
func startOwner(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	owner := helper("own", args...)
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the owner made no lab")
	}
	go func() {
		for lines.Scan() { // so that the owner never blocks on the pipe
		}
	}()
	return owner
}

func kill(t *testing.T, p *exec.Cmd) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
}

func TestSweep_RemovesALabWhoseOwnerCrashed(t *testing.T) {
	t.Parallel()
	name := labName(t)
	owner := startOwner(t, name, "a", "b")
	if info, err := FindLab(name); err != nil || !info.Running || info.PID != owner.Process.Pid {
		t.Errorf("Find while the owner lives: %+v, %v", info, err)
	}
	if err := SweepLab(name); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprint(owner.Process.Pid)) {
		t.Errorf("Sweep while the owner lives: %v", err)
	}
	program, _ := startReady(t, name, "b", "echo ready; exec sleep 100")
	kill(t, owner)

	if info, err := FindLab(name); err != nil || info.Running || info.File != "crash.yaml" || len(info.Hosts) != 2 {
		t.Errorf("Find after the crash: %+v, %v", info, err)
	}
	if _, err := ExecProgram(name, "a", Program{Argv: []string{"true"}}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Exec after the crash: %v", err)
	}
	// The host's programs end with the owner.
	if err := program.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the program in the host ended with %v, want SIGKILL", err)
	}
	if err := SweepLab(name); err != nil {
		t.Fatal(err)
	}
	if left := residue(name); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCreate_ReplacesALabWhoseOwnerCrashed(t *testing.T) {
	t.Parallel()
	name := labName(t)
	kill(t, startOwner(t, name, "a", "b"))
	left := filepath.Join(stateDir, name, "left", "behind")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Create(name, Info{}, hostsN(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of the dead owner: %v", err)
	}
	if got := residue(name); len(got) != 3 {
		t.Errorf("with new hosts there are %v, want h1's and the state only", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// An owner that was killed holds its lock until the kernel has closed its devices:
// others wait for that in the meantime.
func TestCreate_WaitsForADyingOwner(t *testing.T) {
	t.Parallel()
	name := labName(t)
	for i := range 10 {
		owner := startOwner(t, name, "a", "b")
		if err := owner.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 { // weft down instead of up
			if info, err := FindLab(name); err != nil || info.Running {
				t.Errorf("%d: Find: %+v, %v", i, info, err)
			}
			if err := SweepLab(name); err != nil {
				t.Errorf("%d: Sweep: %v", i, err)
			}
			_ = owner.Wait()
			continue
		}
		l, err := Create(name, Info{}, hostsN(1))
		_ = owner.Wait()
		if err != nil {
			t.Errorf("%d: Create: %v", i, err)
			continue
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := residue(name); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestIsDying_TellsKilledFromRunning(t *testing.T) {
	t.Parallel()
	if isDying(os.Getpid()) {
		t.Error("this process is said to be dying")
	}
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if isDying(c.Process.Pid) {
		t.Error("a program that has just started is said to be dying")
	}
	if err := c.Process.Kill(); err != nil || !isDying(c.Process.Pid) {
		t.Errorf("it was killed (%v), and is not said to be dying", err)
	}
	if _ = c.Wait(); !isDying(c.Process.Pid) {
		t.Error("it is no more, and is not said to be dying")
	}
}

// An owner that makes and closes its lab without pause is killed as soon as each of the lab's
// files has been made, or removed.
func TestSweep_RemovesALabKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	name := labName(t)
	if err := SweepLab(name); !errors.Is(err, ErrUnknown) {
		t.Errorf("Sweep of nothing: %v", err)
	}
	const files = 5 // each host has two
	for i := range 2 * files {
		owner := startOwner(t, name, "churn", "a", "b")
		n, made := i/2+1, i%2 == 1
		there := func() bool { return len(residue(name)) >= n }
		for there() == made {
		}
		for there() != made {
		}
		kill(t, owner)
		if err := SweepLab(name); err != nil && !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		if left := residue(name); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
	}
}
