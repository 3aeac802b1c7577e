package netnslab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
)

// virtualHost returns a host whose interface is provided by a program.
func virtualHost() Host { return hostN(1, Virtual, 0) }

func TestVirtualHost_HasNoDevice(t *testing.T) {
	t.Parallel()
	l := makeLab(t, virtualHost(), hostN(2, TAP, 0))
	if d := l.Devices(); len(d) != 1 || d[0].Host != "h2" {
		t.Errorf("devices %+v, want that of h2 only", d)
	}
	if h, ok := l.Info().Host("h1"); !ok || !h.Virtual {
		t.Errorf("h1 is %+v", h)
	}
	if h, ok := l.Info().Host("h2"); !ok || h.Virtual {
		t.Errorf("h2 is %+v", h)
	}
	if o := inside(t, l, "h2", "cat", "/etc/hosts"); !strings.Contains(o, "10.0.0.1\th1") {
		t.Errorf("h2 does not know h1:\n%s", o)
	}
	if _, err := ExecProgram(l.Info().Name, "h1", Program{Argv: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "virtual machine") {
		t.Errorf("Exec in a virtual machine: %v", err)
	}
}

func TestStart_ProgramsEndWithTheLab(t *testing.T) {
	t.Parallel()
	l := makeLab(t, virtualHost())
	c := exec.Command("sleep", "1000")
	ended, err := l.Start("h1", c)
	if err != nil {
		t.Fatal(err)
	}
	its, err := inodeOf(filepath.Join("/proc", strconv.Itoa(c.Process.Pid), "ns/net"))
	if err != nil || !l.Info().findInodes()[its] {
		t.Errorf("the program is in the namespace %v, %v", its, err)
	}
	if _, err := l.Start("h1", exec.Command("/no/such/program")); err == nil {
		t.Error("a program that is not there")
	}
	if _, err := l.Start("h9", exec.Command("true")); err == nil {
		t.Error("a host that is not there")
	}
	short, err := l.Start("h1", exec.Command("sh", "-c", "exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-short; err == nil || err.Error() != "exit status 3" {
		t.Errorf("a program that failed: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_ = await.Receive(t, "the program ends with the lab", ended)
}

// Even if the lab is never removed.
func TestStart_ProgramsDieWithTheOwner(t *testing.T) {
	t.Parallel()
	name := labName(t)
	c := helper("start", name)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 20)
	n, err := out.Read(b)
	pid := strings.TrimSpace(string(b[:n]))
	if err != nil || pid == "" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	own, err1 := os.Readlink("/proc/self/ns/net")
	its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.Process.Pid))
	if err1 != nil || err2 != nil || own != its {
		t.Errorf("the owner is in %s, %v, and this test in %s, %v", its, err2, own, err1)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	await.True(t, "the program dies with the owner", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	if err := SweepLab(name); err != nil {
		t.Error(err)
	}
}

// startLab owns a lab with a program in it until this process is killed.
func startLab(args []string) error {
	l, err := Create(args[0], Info{File: "lab.yaml"}, []Host{virtualHost()})
	if err != nil {
		return err
	}
	c := exec.Command("sleep", "1000")
	if _, err := l.Start("h1", c); err != nil {
		return err
	}
	fmt.Println(c.Process.Pid)
	return unix.Pause()
}
