package netnslab

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestExec_RunsAProgramInItsHost(t *testing.T) {
	l := makeLab(t, hostsN(2)...)
	lab := l.Info().Name

	for _, c := range []struct{ command, want string }{
		{"ls /sys/class/net", "eth0\nlo\n"},
		{"cat /etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n10.0.0.1\th1 h1-eth0\nfd00::1\th1 h1-eth0\n10.0.0.2\th2 h2-eth0\nfd00::2\th2 h2-eth0\n"},
		{"ip netns identify", NamespaceName(lab, "h1") + "\n"},
		{"ping -c1 -w2 -q h1 | grep -c '1 received'", "1\n"},
		{"echo $GREETING", "hello\n"},
	} {
		t.Setenv("GREETING", "hello")
		if got := inside(t, l, "h1", "sh", "-c", c.command); got != c.want {
			t.Errorf("%s says %q, want %q", c.command, got, c.want)
		}
		if out, err := exec.Command("ip", "netns", "exec", NamespaceName(lab, "h1"), "sh", "-c", c.command).CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("under ip netns exec, %s says %q, %v, want %q", c.command, out, err, c.want)
		}
	}

	var exit *exec.ExitError
	if err := helper("exec", lab, "h1", "sh", "-c", "exit 42").Run(); !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("exit 42 came back as %v", err)
	}
	if err := helper("exec", lab, "h1", "sh", "-c", "kill -USR1 $$").Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGUSR1 {
		t.Errorf("a program's end by SIGUSR1 came back as %v", err)
	}

	cat := helper("exec", lab, "h1", "cat")
	cat.Stdin = strings.NewReader("through standard input")
	if out, err := cat.Output(); err != nil || string(out) != "through standard input" {
		t.Errorf("cat says %q, %v", out, err)
	}

	// Exec does not change the machine's mounts.
	if before, err := os.ReadDir("/sys/class/net"); err != nil || len(before) == 0 {
		t.Errorf("the machine's /sys: %v, %v", before, err)
	}
}

func TestExec_ExplainsWhatItCannotRun(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	lab := l.Info().Name
	for _, c := range []struct {
		lab, host, program string
		is                 error
		want               string
	}{
		{lab, "h1", "no-such-program", os.ErrNotExist, "program no-such-program: executable file not found"},
		{lab, "h1", "/no/such/program", os.ErrNotExist, "/no/such/program"},
		{lab, "h1", "/etc/hosts", os.ErrPermission, "/etc/hosts"},
		{lab, "h9", "true", nil, "unknown host h9: the hosts of lab " + lab + " are h1, h2"},
		{"no-such-lab", "h1", "true", ErrUnknown, "no-such-lab"},
	} {
		_, err := ExecProgram(c.lab, c.host, Program{Argv: []string{c.program}, Dir: "/"})
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s of %s: %v", c.program, c.host, c.lab, err)
		}
	}
	// A text file without an interpreter fails only inside the host.
	script := t.TempDir() + "/script"
	if err := os.WriteFile(script, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ExecProgram(lab, "h1", Program{Argv: []string{script}, Dir: "/"}); err == nil || !strings.Contains(err.Error(), syscall.ENOEXEC.Error()) {
		t.Errorf("a file that is no program: %v", err)
	}
	if n, err := os.ReadDir("/sys/class/net"); err != nil || len(n) == 0 {
		t.Errorf("the machine's /sys after a failed Exec: %v, %v", n, err)
	}
	if _, err := ExecProgram(lab, "h1", Program{}); err == nil {
		t.Error("no program, no error")
	}
}
