package rootless

import (
	"os"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestHosts_AreIsolated: a rootless lab isolates its hosts to the same degree.
func TestHosts_AreIsolated(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, testlab.TwoHosts+"  kinds: {host: {private: /tmp}}\n", "ps", "pkill", "ipcmk")
	l.Must("up", "-d", l.File)
	before, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	l.Exec("h1", "hostname", "elsewhere")
	if a, b := l.Exec("h1", "hostname"), l.Exec("h2", "hostname"); a != "elsewhere\n" || b != "h2\n" {
		t.Errorf("the hosts are called %q and %q", a, b)
	}
	if now, err := os.Hostname(); err != nil || now != before {
		t.Errorf("the machine is called %q now, %v", now, err)
	}
	l.Exec("h1", "touch", "/dev/shm/a", "/tmp/a")
	l.Exec("h1", "ipcmk", "-M", "4096")
	if out := l.Exec("h2", "sh", "-c", "ls /dev/shm /tmp; ipcs -m | grep -c ' 4096 ' || true"); out != "/dev/shm:\n\n/tmp:\n0\n" {
		t.Errorf("h2 sees of h1's memory and files\n%s", out)
	}
	one, two := l.StartProgram("h1", "sleep", "1000"), l.StartProgram("h2", "sleep", "1000")
	for _, h := range []string{"h1", "h2"} {
		l.WaitFor("sleep runs in "+h, func() bool { return strings.Contains(l.Exec(h, "ps", "-eo", "args"), "\nsleep 1000\n") })
	}
	if out := l.Exec("h1", "ps", "-eo", "args"); strings.Count(out, "sleep 1000") != 1 || strings.Count(out, "\n") != 4 {
		t.Errorf("h1 has the processes\n%s", out)
	}
	l.Exec("h1", "pkill", "sleep")
	_ = one.WaitEnd(t)
	if out := l.Exec("h2", "ps", "-eo", "args"); !strings.Contains(out, "sleep 1000") {
		t.Errorf("pkill in h1 reached h2:\n%s", out)
	}
	l.Down()
	_ = two.WaitEnd(t)
	checkNothingLeft(l)
}
