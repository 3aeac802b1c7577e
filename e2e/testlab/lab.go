package testlab

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
)

// Lab is a lab of a test. It ends with the test, whatever the result.
type Lab struct {
	T    *testing.T
	Weft string // the path of the command
	Name string
	File string
	As   func(*exec.Cmd) // makes a command run as another user; nil for root
	User uint32          // that user; 0 for root

	Workers string // of weft up; "" means its default
}

// Start writes a lab file, whose text lacks the name, and starts the lab detached. It skips the
// test if programs are missing.
func Start(t *testing.T, text string, programs ...string) *Lab {
	t.Helper()
	return StartOn(t, "", text, programs...)
}

// StartOn is Start with a number of workers.
func StartOn(t *testing.T, workers, text string, programs ...string) *Lab {
	t.Helper()
	l := New(t, Need(t, programs...), t.TempDir(), text)
	l.Workers = workers
	l.Must("up", "-d", l.File)
	return l
}

// New writes a lab file into a directory. The lab is not started, but it ends with the test.
func New(t *testing.T, weft, dir, text string) *Lab {
	t.Helper()
	l := &Lab{T: t, Weft: weft, Name: labPrefix() + strconv.FormatInt(names.Add(1), 10)}
	l.File = filepath.Join(dir, "lab.yaml")
	if err := os.WriteFile(l.File, []byte("name: "+l.Name+"\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Command("down", l.Name).Run() })
	return l
}

// names counts the labs and the files of this process that need a name of their own.
var names atomic.Int64

// In returns the lab for a part of a test.
func (l *Lab) In(t *testing.T) *Lab {
	part := *l
	part.T = t
	return &part
}

// Command returns a weft command of the lab's user.
func (l *Lab) Command(args ...string) *exec.Cmd {
	if args[0] == "up" && l.Workers != "" {
		args = append([]string{"up", "--workers", l.Workers}, args[1:]...)
	}
	c := exec.Command(l.Weft, args...)
	if l.As != nil {
		l.As(c)
	}
	return c
}

// Run runs weft and returns its output and its exit code.
func (l *Lab) Run(args ...string) (stdout, stderr string, code int) {
	l.T.Helper()
	return RunCommand(l.T, l.Command(args...))
}

// Must is Run for calls that have to succeed.
func (l *Lab) Must(args ...string) string {
	l.T.Helper()
	o, e, code := l.Run(args...)
	if code != 0 {
		l.T.Fatalf("weft %s: exit code %d\n%s%s", strings.Join(args, " "), code, o, e)
	}
	return o
}

// Exec runs a program inside a host, which has to succeed.
func (l *Lab) Exec(host string, argv ...string) string {
	l.T.Helper()
	return l.Must(append([]string{"exec", "-l", l.Name, host, "--"}, argv...)...)
}

// StartServer runs a program inside a host until the test ends.
func (l *Lab) StartServer(host string, argv ...string) *exec.Cmd {
	l.T.Helper()
	c := l.Command(append([]string{"exec", "-l", l.Name, host, "--"}, argv...)...)
	if err := c.Start(); err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// clients are the clients of running labs, by name.
var clients sync.Map

// Client returns a client of the API of a lab of root. The weft command would do the same, but
// starting it takes a hundred times as long, which matters for a condition that is looked at often.
func (l *Lab) Client() *lab.Client {
	c, _ := clients.LoadOrStore(l.Name, lab.NewClient(filepath.Join("/run/weft", l.Name)))
	return c.(*lab.Client)
}

// askLab returns what the lab's API says, or for a lab of a user, whose state directory is elsewhere,
// what a command prints.
func askLab[V any](l *Lab, api func(context.Context) (V, error), args ...string) (v V) {
	l.T.Helper()
	var err error
	if l.As == nil {
		v, err = api(context.Background()) // also at the end of the test
	} else {
		err = json.Unmarshal([]byte(l.Must(args...)), &v)
	}
	if err != nil {
		l.T.Fatalf("weft %s: %v", strings.Join(args, " "), err)
	}
	return v
}

// Status returns what weft ps says of the lab.
func (l *Lab) Status() lab.Status {
	l.T.Helper()
	return askLab(l, l.Client().Status, "ps", "--json", l.Name)
}

// PID returns the PID of the lab's process.
func (l *Lab) PID() int {
	l.T.Helper()
	return l.Status().PID
}

// Ports returns every port by name.
func (l *Lab) Ports() map[string]status.Port {
	l.T.Helper()
	m := map[string]status.Port{}
	for _, p := range askLab(l, l.Client().Ports, "ps", "-p", "--json", l.Name) {
		m[p.Name] = p
	}
	return m
}

// Log returns what the lab's process has written into its log.
func (l *Lab) Log() string {
	l.T.Helper()
	b, err := os.ReadFile(filepath.Join("/run/weft", l.Name, "log"))
	if err != nil {
		l.T.Fatal(err)
	}
	return string(b)
}

// Down ends the lab and returns its report.
func (l *Lab) Down() *report.Report {
	l.T.Helper()
	r := &report.Report{}
	if err := json.Unmarshal([]byte(l.Must("down", "--json", l.Name)), r); err != nil {
		l.T.Fatal(err)
	}
	return r
}
