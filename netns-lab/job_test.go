package netnslab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
)

// terminal is a terminal with a program in its own session.
type terminal struct {
	t    *testing.T
	side *os.File // the user's side
	c    *exec.Cmd

	mu   sync.Mutex
	said bytes.Buffer
}

func openTerminal(t *testing.T, argv ...string) *terminal {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED: no terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	x := &terminal{t: t, side: side, c: exec.Command(argv[0], argv[1:]...)}
	x.c.Stdin, x.c.Stdout, x.c.Stderr = other, other, other
	x.c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := side.Read(b)
			if err != nil {
				return
			}
			x.mu.Lock()
			x.said.Write(b[:n])
			x.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = x.c.Process.Kill()
		_ = x.c.Wait()
		side.Close()
		if t.Failed() {
			x.mu.Lock()
			defer x.mu.Unlock()
			t.Logf("last the terminal showed %q", x.said.String())
		}
	})
	return x
}

func (x *terminal) types(text string) {
	x.t.Helper()
	if _, err := x.side.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits until the terminal has shown a text, and discards the output before it.
func (x *terminal) shows(text string) {
	x.t.Helper()
	await.True(x.t, fmt.Sprintf("the terminal shows %q", text), func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, rest, ok := bytes.Cut(x.said.Bytes(), []byte(text))
		if ok {
			rest = bytes.Clone(rest)
			x.said.Reset()
			x.said.Write(rest)
		}
		return ok
	})
}

// awaitInFront waits until a program is in the foreground: input typed while the foreground
// group changes may get lost, as with any job.
func (x *terminal) awaitInFront(program string) {
	x.t.Helper()
	await.True(x.t, program+" in the foreground", func() bool {
		group, err := unix.IoctlGetInt(int(x.side.Fd()), unix.TIOCGPGRP)
		if err != nil {
			x.t.Fatal(err)
		}
		leader, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", group))
		return string(leader) == program+"\n"
	})
}

// For its shell outside, a program in a host is a job like any other.
func TestJob_IsControlledByTheShell(t *testing.T) {
	l := makeLab(t, hostsN(2)...)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("SKIPPED: this test needs bash")
	}
	t.Setenv("PS1", "$ ")
	t.Setenv("W", fmt.Sprintf("env %s=exec /proc/%d/exe %s h1", helperEnv, os.Getpid(), l.Info().Name))
	t.Setenv("HISTFILE", "")
	x := openTerminal(t, "env", "--default-signal", "bash", "--norc", "--noprofile", "-i") // see helper
	x.types("echo be''gun\n")
	x.shows("begun")

	// The shell may read input that is typed before a program reads.
	const cat = "$W sh -c 'echo re\"\"ady; exec cat'"
	x.types(cat + "\n")
	x.shows("ready")
	x.types("one\n")
	x.shows("one\r\none\r\n")
	x.types("\x1a") // Ctrl-Z
	x.shows("Stopped")
	x.types("fg\n")
	x.shows("exec cat'\r\n")
	x.awaitInFront("cat")
	x.types("two\n")
	x.shows("two\r\ntwo\r\n")
	x.types("\x03") // Ctrl-C
	x.shows("$ ")
	x.types("echo code $?.\n")
	x.shows("code 130.")

	// A program that handles Ctrl-C gets it once.
	x.types("$W sh -c 'trap \"echo g''ot it\" INT; echo re''ady; read x || read x; echo after $x; exit 3'\n")
	x.shows("ready")
	x.types("\x03")
	x.shows("got it")
	x.types("text\n")
	x.shows("after")
	x.types("echo code $?.\n")
	x.shows("code 3.")

	// In a pipeline other processes use the terminal too; the program gets it when it reads.
	x.types("$W sh -c 'echo re\"\"ady; read x </dev/tty; echo [$x]' | cat; echo code ${PIPESTATUS[0]}.\n")
	x.shows("ready")
	x.types("three\n")
	x.shows("[three]")
	x.shows("code 0.")

	// Interactive shells have their own job control, and give the terminal back.
	for _, shell := range []string{"bash --norc --noprofile -i", "sh -i"} {
		x.types("PS1=in'> ' $W " + shell + "; echo code $?.\n")
		x.shows("in> ")
		x.types("hostname; sh -c 'echo re\"\"ady; exec sleep 100'\n")
		x.shows("h1\r\n")
		x.shows("ready")
		x.types("\x03")
		x.shows("in> ")
		x.types("sh -c 'echo re\"\"ady; exec sleep 100'\n")
		x.shows("ready")
		x.types("\x1a")
		x.shows("Stopped")
		x.types("kill -KILL %1; while kill -0 %1 2>/dev/null; do sleep 0.02; done\n")
		x.shows("in> ")
		x.types("exit 5\n")
		x.shows("code 5.")
	}

	// In the background it stops when it reads, and continues in the foreground.
	x.types(cat + " &\n")
	x.shows("ready")
	x.types("until [ -n \"$(jobs -s)\" ]; do sleep 0.05; done; jobs\n")
	x.shows("Stopped")
	x.types("fg\n")
	x.shows("exec cat'\r\n")
	x.awaitInFront("cat")
	x.types("four\n")
	x.shows("four\r\nfour\r\n")
	x.types("\x04") // end of file
	x.types("echo code $?.\n")
	x.shows("code 0.")

	// A script is interrupted as a whole.
	x.types("bash -c '$W sh -c \"echo re\\\"\\\"ady; exec sleep 100\"; echo not reached'\n")
	x.shows("ready")
	x.types("\x03")
	x.shows("$ ")
	x.types("echo code $?.\n")
	x.shows("code 130.")
	x.types("exit\n")
	if err := x.c.Wait(); err != nil && !strings.Contains(err.Error(), "exit status") {
		t.Error(err)
	}
}

// Signals to a process that runs a program in a host are forwarded to the program.
func TestSignals_ReachTheProgram(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	lab := l.Info().Name
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, 40} {
		c, out := startReady(t, lab, "h1", fmt.Sprintf("trap 'echo caught; exit 7' %d; echo ready; while :; do sleep 0.02; done", s))
		_ = c.Process.Signal(s)
		var rest bytes.Buffer
		_, _ = rest.ReadFrom(out)
		if _ = c.Wait(); rest.String() != "caught\n" || c.ProcessState.ExitCode() != 7 {
			t.Errorf("signal %v: %q, %v", s, rest.String(), c.ProcessState)
		}
	}
	// Without a handler the signal ends the process, and no core is written here.
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGSEGV, unix.SIGABRT, unix.SIGQUIT, unix.SIGKILL, unix.SIGPIPE} {
		c := helper("exec", lab, "h1", "sh", "-c", fmt.Sprintf("kill -%d $$", s))
		_ = c.Run()
		if w := c.ProcessState.Sys().(syscall.WaitStatus); !w.Signaled() || w.Signal() != s {
			t.Errorf("a program's end by %v came back as %v", s, c.ProcessState)
		}
	}
}

// The program also ignores a signal that weft exec ignores, as under nohup(1).
func TestSignals_StayIgnored(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	c := exec.Command("sh", "-c", `trap "" HUP; exec "$@"`, "sh", ownPath(), l.Info().Name, "h1", "sh", "-c", "kill -HUP $$; echo alive")
	c.Env = append(os.Environ(), helperEnv+"=exec")
	if out, err := c.Output(); err != nil || string(out) != "alive\n" {
		t.Errorf("with SIGHUP ignored: %q, %v", out, err)
	}
}

// The program ends with the process that runs it.
func TestExec_KilledEndsItsProgram(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	c := program(t, l, "h1", "sleep", "1004")
	_ = c.Process.Kill()
	await.True(t, "the end of the program", func() bool { return len(commandsIn(t, l, "h1")) == 0 })
}

// The same holds while the program is about to start.
func TestExec_KilledAtItsStartLeavesNoProgram(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	for _, reached := range []func(pid int) bool{
		func(int) bool { return true },
		func(pid int) bool { return nameOf(pid) != "env" }, // which is what helper starts
		func(pid int) bool { return len(childrenOf(t, pid)) > 0 },
		func(pid int) bool {
			return slices.ContainsFunc(childrenOf(t, pid), func(child int) bool { return nameOf(child) == "sleep" })
		},
	} {
		for range 15 {
			c := helper("exec", l.Info().Name, "h1", "sleep", "1005")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(await.Limit); !reached(c.Process.Pid); { // at that very moment
				if time.Now().After(end) {
					t.Fatal("the program does not start")
				}
			}
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	await.True(t, "the end of the programs", func() bool { return len(commandsIn(t, l, "h1")) == 0 })
}

// nameOf returns the name of a process, "" if it has ended.
func nameOf(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}

// childrenOf returns the processes that a process has started.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		stat, _ := os.ReadFile(f) // it may have ended
		// The name may have spaces; the state and the parent follow it.
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			children = append(children, child)
		}
	}
	return children
}

// A program has the open files, the directory and the environment of the process that
// runs it.
func TestExec_PassesOnFilesDirectoryAndEnvironment(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := helper("exec", l.Info().Name, "h1", "sh", "-c", "echo $X from $PWD >&3; pwd >&3")
	dir := t.TempDir()
	c.Dir, c.ExtraFiles = dir, []*os.File{w}
	c.Env = append(c.Env, "X=y", "PWD="+dir)
	err = c.Run()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	_, _ = got.ReadFrom(r)
	if want := "y from " + dir + "\n" + dir + "\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
	// Arguments may be any bytes.
	if got := inside(t, l, "h1", "printf", "%s|", "a b", "", "\xff\xfe", "$X", "--"); got != "a b||\xff\xfe|$X|--|" {
		t.Errorf("arguments came as %q", got)
	}
	// A directory that the host does not have.
	gone := t.TempDir()
	c = helper("exec", l.Info().Name, "h1", "pwd")
	c.Dir = gone
	hosts := hostsN(1)
	hosts[0].Name, hosts[0].Private = "p", []string{"/tmp"}
	other := makeLab(t, hosts...)
	if strings.HasPrefix(gone, "/tmp/") {
		c = helper("exec", other.Info().Name, "p", "pwd", "-P")
		c.Dir = gone
		if out, err := c.CombinedOutput(); err != nil || string(out) != "/\n" {
			t.Errorf("in a directory that is not there: %v, %s", err, out)
		}
	}
}
