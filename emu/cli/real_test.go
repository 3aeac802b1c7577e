package cli

// The tests in real_*_test.go run the weft command as users do: real labs, real programs,
// in wall-clock time, because that is what they test. They need root and the programs that
// scripts/test.sh installs. None of their time limits is tight: on a slow machine they are
// slow, but do not fail.
//
// Tests with t.Parallel run concurrently after all others. They wait for programs to end,
// check no rate and no duration (or do so with dilation), and share nothing: each lab has
// its own name, directories and networks. Tests of ordinary users are not among them, as
// they look for all processes of one user, nor are tests that count the mounts or the
// devices of the machine.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/report"
)

// buildWeft builds the command once for all tests.
var buildWeft = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weft-test-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for tests that run as another user
		return "", err
	}
	path := filepath.Join(dir, "weft")
	out, err := exec.Command("go", "build", "-o", path, "github.com/weftlab/weft").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	if cleanUp, err = startCleaner(path); err != nil {
		return "", err
	}
	return path, nil
})

// cleanUp is nil if no test has needed the command.
var cleanUp *cleaner

func TestMain(m *testing.M) {
	code := m.Run()
	if cleanUp != nil {
		cleanUp.finish()
	}
	if extensionTemp != "" {
		os.RemoveAll(extensionTemp)
	}
	os.Exit(code)
}

// patience is how long tests wait for something that happens soon on most machines.
const patience = time.Minute

// becomesTrue waits until a condition is true.
func (l *realLab) becomesTrue(what string, is func() bool) {
	l.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			return
		}
	}
	l.t.Fatalf("%s has not come about in %v", what, patience)
}

// needReal skips a test that cannot run here.
func needReal(t *testing.T, programs ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out tests with real programs")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: this test makes network namespaces and needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: this test needs %s: run scripts/test.sh, which installs it", p)
		}
	}
	path, err := buildWeft()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// realLab is a lab started by a test.
type realLab struct {
	t    *testing.T
	weft string
	name string
	file string
	as   func(*exec.Cmd) // makes a command run as another user; nil for root

	workers string // of weft up; "" means its default
}

// startLab writes a lab file and starts it detached. The lab ends with the
// test, whatever the result.
func startLab(t *testing.T, text string, programs ...string) *realLab {
	t.Helper()
	return startLabOn(t, "", text, programs...)
}

// startLabOn is startLab with a number of workers.
func startLabOn(t *testing.T, workers, text string, programs ...string) *realLab {
	t.Helper()
	l := newLab(t, needReal(t, programs...), t.TempDir(), text)
	l.workers = workers
	l.must("up", "-d", l.file)
	return l
}

// newLab writes a lab file into dir and makes the lab end with the test. Its
// name differs in every process so that two runs do not collide.
func newLab(t *testing.T, weft, dir, text string) *realLab {
	t.Helper()
	l := &realLab{t: t, weft: weft, name: labPrefix() + strconv.Itoa(labCount())}
	l.file = filepath.Join(dir, "lab.yaml")
	if err := os.WriteFile(l.file, []byte("name: "+l.name+"\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.command("down", l.name).Run() })
	return l
}

// command returns a weft command of the lab's user.
func (l *realLab) command(args ...string) *exec.Cmd {
	if args[0] == "up" && l.workers != "" {
		args = append([]string{"up", "--workers", l.workers}, args[1:]...)
	}
	c := exec.Command(l.weft, args...)
	if l.as != nil {
		l.as(c)
	}
	return c
}

var labCount = func() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}()

// run runs weft and returns its output and its exit code.
func (l *realLab) run(args ...string) (stdout, stderr string, code int) {
	l.t.Helper()
	return runCommand(l.t, l.command(args...))
}

func runWeft(t *testing.T, weft string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runCommand(t, exec.Command(weft, args...))
}

func runCommand(t *testing.T, c *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Start()
	if err == nil {
		// A hanging program must not hang the test suite; the limit is far
		// longer than any call takes.
		limit := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
		defer limit.Stop()
		err = c.Wait()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		t.Fatalf("%s: %v", strings.Join(c.Args, " "), err)
	}
	return o.String(), e.String(), code
}

// must is like run, for calls that have to succeed.
func (l *realLab) must(args ...string) string {
	l.t.Helper()
	o, e, code := l.run(args...)
	if code != 0 {
		l.t.Fatalf("weft %s: exit code %d\n%s%s", strings.Join(args, " "), code, o, e)
	}
	return o
}

// exec runs a program inside a host, which has to succeed.
func (l *realLab) exec(host string, argv ...string) string {
	l.t.Helper()
	return l.must(append([]string{"exec", "-l", l.name, host, "--"}, argv...)...)
}

// server runs a program inside a host until the test ends.
func (l *realLab) server(host string, argv ...string) *exec.Cmd {
	l.t.Helper()
	c := l.command(append([]string{"exec", "-l", l.name, host, "--"}, argv...)...)
	if err := c.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// listens waits until something listens on a TCP port of a host.
func (l *realLab) listens(host, port string) {
	l.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(l.exec(host, "ss", "-Hltn", "sport", "=", ":"+port), "LISTEN") {
			return
		}
	}
	l.t.Fatalf("nothing listens on port %s of %s", port, host)
}

// iperf is the part of the output of iperf3 -J that the tests use.
type iperf struct {
	Error string `json:"error"`
	End   struct {
		Sent     iperfSum `json:"sum_sent"`
		Received iperfSum `json:"sum_received"`
		Sum      iperfSum `json:"sum"`
		Streams  []struct {
			UDP iperfSum `json:"udp"`
		} `json:"streams"`
	} `json:"end"`
}

type iperfSum struct {
	Bytes       float64 `json:"bytes"`
	Bits        float64 `json:"bits_per_second"`
	Retransmits int     `json:"retransmits"`
	Lost        float64 `json:"lost_packets"`
	Packets     float64 `json:"packets"`
	LostPercent float64 `json:"lost_percent"`
}

// iperf3 runs a client in one host against a fresh server in another.
func (l *realLab) iperf3(client, server, address string, flags ...string) iperf {
	l.t.Helper()
	r := l.tryIperf3(client, server, address, flags...)
	if r.Error != "" {
		l.t.Fatalf("iperf3 %v: %s", flags, r.Error)
	}
	return r
}

// tryIperf3 is like iperf3, for networks that may lose a packet of the
// handshake that iperf3 does not retransmit; the result's Error then says so.
// Client and server have a higher priority than other programs; otherwise the
// server's socket overflows on a busy machine.
func (l *realLab) tryIperf3(client, server, address string, flags ...string) (r iperf) {
	l.t.Helper()
	s := l.server(server, "nice", "-n", "-15", "iperf3", "-s", "-1")
	defer func() { _ = s.Process.Kill(); _ = s.Wait() }()
	l.listens(server, "5201")
	args := append([]string{"exec", "-l", l.name, client, "--", "nice", "-n", "-15", "iperf3", "-c", address, "-J"}, flags...)
	out, said, _ := l.run(args...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		l.t.Fatalf("iperf3 %v: %v\n%s%s", flags, err, out, said)
	}
	return r
}

// ports returns every port by name.
func (l *realLab) ports() map[string]fabric.PortStatus {
	l.t.Helper()
	var list []fabric.PortStatus
	if err := json.Unmarshal([]byte(l.must("ps", "-p", "--json", l.name)), &list); err != nil {
		l.t.Fatal(err)
	}
	m := map[string]fabric.PortStatus{}
	for _, p := range list {
		m[p.Name] = p
	}
	return m
}

// down ends the lab and returns its report.
func (l *realLab) down() *report.Report {
	l.t.Helper()
	r := &report.Report{}
	if err := json.Unmarshal([]byte(l.must("down", "--json", l.name)), r); err != nil {
		l.t.Fatal(err)
	}
	return r
}

// quiet waits until nothing moves. Hosts' kernels send neighbour probes and the
// like unprompted, so quiet finds a moment between two of them.
func (l *realLab) quiet() {
	l.t.Helper()
	var last uint64
	still := 0
	for range 300 {
		var now uint64
		for _, p := range l.ports() {
			now += p.RxPackets + p.TxPackets
		}
		if now == last {
			if still++; still == 5 {
				return
			}
		} else {
			still = 0
		}
		last = now
		time.Sleep(50 * time.Millisecond)
	}
	l.t.Log("the lab did not become quiet")
}

// capture starts a capture of ports into a file. stop ends it cleanly and
// returns the file's name.
func (l *realLab) capture(args ...string) (stop func() string) {
	l.t.Helper()
	file := filepath.Join(filepath.Dir(l.file), fmt.Sprintf("capture-%d.pcapng", labCount()))
	c := l.command(append([]string{"capture", "-l", l.name, "-w", file}, args...)...)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	// The file's header exists once the capture runs.
	for range 500 {
		if s, err := os.Stat(file); err == nil && s.Size() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return func() string {
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil {
			l.t.Fatalf("capture: %v\n%s", err, said.String())
		}
		if strings.Contains(said.String(), "OVERRUN") {
			l.t.Fatalf("capture: %s", said.String())
		}
		return file
	}
}

// tshark returns the lines that tshark prints for a file.
func tshark(t *testing.T, file string, args ...string) []string {
	t.Helper()
	c := exec.Command("tshark", append([]string{"-r", file}, args...)...)
	var e bytes.Buffer
	c.Stderr = &e
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark %v: %v\n%s", args, err, e.String())
	}
	var lines []string
	for _, l := range strings.Split(string(out), "\n") {
		if l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}
