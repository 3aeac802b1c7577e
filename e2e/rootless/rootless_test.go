package rootless

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// checkNothingLeft waits until a user's lab has left nothing behind: a lab's process reports that
// it is done just before it ends.
func checkNothingLeft(l *testlab.Lab) {
	l.T.Helper()
	var found []string
	defer func() {
		if len(found) > 0 {
			l.T.Logf("left: %q", found)
		}
	}()
	l.WaitFor("nothing is left of the lab", func() bool {
		found = there(l)
		return len(found) == 0
	})
}

// there lists what a user's lab has at this moment: its state, and processes.
func there(l *testlab.Lab) []string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(l.File), "run", "weft", "*"))
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		if s, err := os.Stat(p); err != nil || s.Sys().(*syscall.Stat_t).Uid != l.User {
			continue
		}
		// A process that has ended and waits for its parent has no command line.
		if line, _ := os.ReadFile(filepath.Join(p, "cmdline")); len(line) > 0 {
			found = append(found, p+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// TestRootless_AllCommandsWork takes an ordinary user through all commands, while root runs a lab
// of the same name.
func TestRootless_AllCommandsWork(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, testlab.TwoHosts, "ping", "iperf3", "nginx", "curl", "tshark", "tcpdump", "script")
	roots := &testlab.Lab{T: t, Weft: l.Weft, Name: l.Name, File: l.File}
	t.Cleanup(func() { _ = roots.Command("down", l.Name).Run() })
	l.Must("up", "-d", l.File)
	if o := roots.Must("ps"); strings.Contains(o, l.Name) {
		t.Errorf("root sees the user's lab:\n%s", o)
	}
	roots.Must("up", "-d", l.File)
	if o := l.Must("ps"); strings.Count(o, l.Name) != 1 || !strings.Contains(o, "running") {
		t.Errorf("ps says\n%s", o)
	}
	if o := l.Must("ps", l.Name); !strings.Contains(o, "weft-"+l.Name+"-h2") {
		t.Errorf("ps %s says\n%s", l.Name, o)
	}
	if l.PID() == roots.PID() {
		t.Error("both labs have one process")
	}

	t.Run("ProgramsRun", func(t *testing.T) {
		l := l.In(t)
		for _, family := range []string{"-4", "-6"} {
			l.Ping("h1", 3, family, "h2")
		}
		if r := l.Iperf3("h1", "h2", "h2", "-n", "2M"); r.End.Received.Bytes < 1e6 { // packets in flight at the end do not count
			t.Errorf("%.0f bytes of 2 MB are received", r.End.Received.Bytes)
		}
		dir := filepath.Dir(l.File)
		conf := filepath.Join(dir, "nginx.conf")
		text := fmt.Sprintf("daemon off; user root; pid %s/pid; error_log %s/error.log;\nevents {}\nhttp { access_log off; client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s; server { listen 80; root %s; } }\n", dir, dir, dir, dir, dir, dir, dir, dir)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		l.StartServer("h2", "nginx", "-e", dir+"/error.log", "-c", conf)
		l.WaitListening("h2", "80")
		if got := l.Exec("h1", "curl", "-s", "-S", "--max-time", "30", "http://h2/nginx.conf"); got != text {
			t.Errorf("curl got %q", got)
		}
	})
	t.Run("ExecIsTransparent", func(t *testing.T) {
		l := l.In(t)
		in := func(argv ...string) (string, string, int) {
			return l.Run(append([]string{"exec", "-l", l.Name, "h1", "--"}, argv...)...)
		}
		o, e, code := in("sh", "-c", "pwd; id -u; ls /sys/class/net; ip netns identify; echo err >&2; exit 42")
		if want := filepath.Dir(l.File) + "\n0\neth0\nlo\nweft-" + l.Name + "-h1\n"; o != want || e != "err\n" || code != 42 {
			t.Errorf("exit code %d, %q, want %q, %q", code, o, want, e)
		}
		if _, e, code := in("no-such-program"); code != 127 || !strings.Contains(e, "no-such-program") {
			t.Errorf("a missing program: exit code %d, %q", code, e)
		}
		if _, e, code := l.Run("exec", l.Name+"/h9", "true"); code != 2 || !strings.Contains(e, "h1, h2") {
			t.Errorf("an unknown host: exit code %d, %q", code, e)
		}
		cat := l.Command("exec", "-l", l.Name, "h1", "cat")
		cat.Stdin = strings.NewReader("through standard input")
		if o, _, _ := testlab.RunCommand(t, cat); o != "through standard input" {
			t.Errorf("cat says %q", o)
		}
		l.CheckSignalsAndTerminal()
		shell := l.Command("shell", "-l", l.Name, "h2")
		shell.Env = append(shell.Env, "SHELL=/bin/sh")
		shell.Stdin = strings.NewReader("echo $WEFT_HOST; hostname -I\n")
		if o, e, _ := testlab.RunCommand(t, shell); !strings.HasPrefix(o, "h2\n10.0.0.2 ") {
			t.Errorf("the shell says %q, %q", o, e)
		}
	})
	t.Run("CaptureWorks", func(t *testing.T) {
		l := l.In(t)
		stop := l.Capture("s1:1", "-f", "icmp")
		l.Ping("h1", 4, "-4", "h2")
		if lines := testlab.Tshark(t, stop(), "-Y", "icmp"); len(lines) != 8 {
			t.Errorf("%d packets, want 8:\n%s", len(lines), strings.Join(lines, "\n"))
		}
	})
	t.Run("SetChangesTheLink", func(t *testing.T) {
		l := l.In(t)
		l.Must("set", "-l", l.Name, "h1:eth0", "delay=30ms", "rate=10Mbps", "mtu=1400")
		if rtt := l.MinRTT("h1", "h2", 3); rtt < 60 {
			t.Errorf("round trip %.1f ms, want 60 or more", rtt)
		}
		if o := l.Exec("h1", "tc", "qdisc", "show", "dev", "eth0"); !strings.Contains(o, "rate 9990Kbit") {
			t.Errorf("the host's shaper does not follow: %s", o)
		}
		if p := roots.Ports()["h1:eth0"]; p.Link.Rate.String() != "100Mbps" {
			t.Errorf("the lab of root has changed: %s", p.Link.Rate)
		}
	})

	sleep := l.StartProgram("h1", "sleep", "1000")
	r := l.Down()
	if !r.Accounts.Balanced() || r.Accounts.Entered == 0 {
		t.Errorf("accounts %+v", r.Accounts)
	}
	_ = sleep.WaitEnd(t)
	checkNothingLeft(l)
	roots.Ping("h1", 1, "h2") // unharmed
	roots.Down()
	testlab.CheckNothingLeft(t, l.Name)
}

// TestRootless_KilledIsCleanedUp: what a killed lab leaves behind, including programs in its
// hosts, is removed by the next up or down; root's lab of the same name stays.
func TestRootless_KilledIsCleanedUp(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, testlab.TwoHosts, "ping")
	l.Must("up", "-d", l.File)
	sleep := l.StartProgram("h2", "sleep", "1000")
	chrooted := l.StartProgram("h2", "chroot", "/usr", "/bin/sleep", "1000")
	l.WaitFor("both sleep, and are no longer weft or nsenter", func() bool {
		programs := 0
		for _, p := range there(l) {
			if strings.HasSuffix(p, "sleep 1000 ") && !strings.Contains(p, " exec ") && !strings.Contains(p, " chroot ") {
				programs++
			}
		}
		return programs == 2
	})
	l.Crash()
	if _, e, code := l.Run("exec", "-l", l.Name, "h1", "--", "true"); code != 1 || !strings.Contains(e, "weft down "+l.Name) {
		t.Errorf("exec in a crashed lab: exit code %d, %q", code, e)
	}
	l.Must("up", "-d", l.File)
	for _, c := range []*testlab.Program{sleep, chrooted} {
		if _ = c.WaitEnd(t); c.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("%v ended with %v, want SIGKILL, with the lab's process", c.Args, c.ProcessState)
		}
	}
	l.Ping("h1", 1, "h2")

	roots := &testlab.Lab{T: t, Weft: l.Weft, Name: l.Name, File: l.File}
	t.Cleanup(func() { _ = roots.Command("down", l.Name).Run() })
	roots.Must("up", "-d", l.File)
	l.Crash()
	if o := l.Must("down", l.Name); !strings.Contains(o, "crashed") {
		t.Errorf("down of a crashed lab says %q", o)
	}
	checkNothingLeft(l)
	roots.Ping("h1", 1, "h2")
}

// TestRootless_AttachedEndsWithBothProcesses: a lab in the foreground, with its two processes: one
// outside the namespaces and the lab's own.
func TestRootless_AttachedEndsWithBothProcesses(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, "fidelity: {mode: strict, limit: 1ns}\n"+testlab.TwoHosts, "ping")
	// Both exit codes and the report come from the lab's own process.
	strict := testlab.Launch(t, l.Command("up", l.File))
	strict.WaitFor(l, "the lab is up", func() bool { return strings.Contains(strict.Out.String(), "is up: 2 hosts, 1 switches") })
	l.Ping("h1", 1, "h2")
	_ = strict.Process.Signal(os.Interrupt)
	err := strict.WaitEnd(t)
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || failed.ExitCode() != testlab.ExitStrict ||
		!strings.Contains(strict.Out.String(), "FAILED (strict)") {
		t.Errorf("%v, want exit code %d\n%s", err, testlab.ExitStrict, &strict.Out)
	}
	for _, c := range []struct {
		name   string
		signal func(outer *os.Process)
	}{
		{"SIGINT", func(p *os.Process) { _ = p.Signal(os.Interrupt) }},
		{"SIGKILL", func(p *os.Process) { _ = p.Kill() }},
		{"SIGKILLOfTheLabsProcess", func(*os.Process) { _ = syscall.Kill(l.PID(), syscall.SIGKILL) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.In(t)
			up := testlab.Launch(t, l.Command("up", l.File))
			up.WaitFor(l, "the lab is up", func() bool { return strings.Contains(up.Out.String(), "is up: 2 hosts, 1 switches") })
			c.signal(up.Process)
			_ = up.WaitEnd(t) // also of the other process, which has the same output
			checkNothingLeft(l)
		})
	}
}

// TestRootless_ObstaclesAreNamed: every obstacle is named, with the fix.
func TestRootless_ObstaclesAreNamed(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, testlab.TwoHosts)
	refusedBy := func(weft func(args ...string) *exec.Cmd, want ...string) {
		t.Helper()
		for _, args := range [][]string{{"up", l.File}, {"up", "-d", l.File}} {
			_, e, code := testlab.RunCommand(t, weft(args...))
			for _, w := range want {
				if code != 1 || !strings.Contains(e, w) {
					t.Errorf("weft %v: exit code %d, %q does not say %q", args, code, e, w)
				}
			}
		}
		checkNothingLeft(l)
	}
	refused := func(want ...string) { t.Helper(); refusedBy(l.Command, want...) }
	t.Run("TUNDeviceOfRoot", func(t *testing.T) {
		// In a mount namespace, so that other labs keep theirs.
		refusedBy(func(args ...string) *exec.Cmd {
			user := strconv.Itoa(int(l.User))
			c := exec.Command("unshare", append([]string{"--mount", "sh", "-c",
				`mount -t tmpfs none "$(dirname "$0")" && mknod -m 600 "$0" c 10 200 && user=$1 && shift && exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"`,
				testlab.TunDevice, user, l.Weft}, args...)...)
			l.As(c)
			c.SysProcAttr = nil
			return c
		}, testlab.TunDevice, "chmod 0666 "+testlab.TunDevice)
	})
	t.Run("RealTimeIsRequired", func(t *testing.T) {
		text, err := os.ReadFile(l.File)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.WriteFile(l.File, text, 0o644) }()
		if err := os.WriteFile(l.File, append([]byte("engine: {realtime: require}\n"), text...), 0o644); err != nil {
			t.Fatal(err)
		}
		refused("SCHED_FIFO", "rtprio")
	})
	t.Run("NoUserNamespaces", func(t *testing.T) {
		// The limit of a user namespace only applies inside it, so the
		// machine's own limit is not changed.
		limited := func(args ...string) *exec.Cmd {
			c := exec.Command("unshare", append([]string{"--user", "--map-root-user", "sh", "-c",
				`echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -all --inh-caps -all "$@"`, "sh", l.Weft}, args...)...)
			l.As(c)
			return c
		}
		_, e, code := testlab.RunCommand(t, limited("up", l.File))
		if code != 1 || !strings.Contains(e, "user.max_user_namespaces=") || !strings.Contains(e, "sudo") {
			t.Errorf("exit code %d, %q", code, e)
		}
	})
	t.Run("StateDirectoryOfSomebodyElse", func(t *testing.T) {
		state := filepath.Join(filepath.Dir(l.File), "run", "weft")
		os.Remove(state)
		if err := os.Mkdir(state, 0o755); err != nil {
			t.Fatal(err)
		}
		refused(state, "remove it")
		if _, e, code := l.Run("ps"); code != 1 || !strings.Contains(e, state) {
			t.Errorf("ps: exit code %d, %q", code, e)
		}
		os.Remove(state)
	})
	t.Run("NoNsenter", func(t *testing.T) {
		l.Must("up", "-d", l.File)
		c := l.Command("exec", "-l", l.Name, "h1", "true")
		c.Env = append(c.Env, "PATH=/nowhere")
		if _, e, code := testlab.RunCommand(t, c); code != 1 || !strings.Contains(e, "util-linux") {
			t.Errorf("exit code %d, %q", code, e)
		}
		l.Down()
	})
}
