package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/doctor"
	"github.com/weftlab/weft/internal/await"
)

// home is a network namespace for a doctor, so that a test sees what it leaves there.
type home struct {
	t    *testing.T
	name string
}

func newHome(t *testing.T, name string) home {
	t.Helper()
	h := home{t, fmt.Sprintf("doctor-%d-%s", os.Getpid(), name)}
	h.ip("netns", "add", h.name)
	t.Cleanup(func() { h.ip("netns", "delete", h.name) })
	return h
}

func (h home) ip(args ...string) string {
	h.t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// command returns weft in the namespace.
func (h home) command(weft string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.name, weft}, args...)...)
}

// checkEmpty checks that the namespace has the devices of a new one.
func (h home) checkEmpty() {
	h.t.Helper()
	if links := h.ip("-n", h.name, "-br", "link"); strings.Count(links, "\n") != 1 || !strings.HasPrefix(links, "lo ") {
		h.t.Errorf("left behind:\n%s", links)
	}
}

// examine runs weft doctor --quick --json.
func examine(t *testing.T, c *exec.Cmd) (r doctor.Result, code int) {
	t.Helper()
	r, code, err := tryExamine(c)
	if err != nil {
		t.Fatal(err)
	}
	return r, code
}

func tryExamine(c *exec.Cmd) (r doctor.Result, code int, err error) {
	c.Args = append(c.Args, "doctor", "--quick", "--json")
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil && c.ProcessState == nil {
		return r, 0, err
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, 0, fmt.Errorf("%w\n%s%s", err, out, said.String())
	}
	return r, c.ProcessState.ExitCode(), nil
}

// TestDoctor_AdvisesSysctlsThatLabsTake: a lab accepts the sysctls that the doctor advises.
// Well-configured machines get no such advice.
func TestDoctor_AdvisesSysctlsThatLabsTake(t *testing.T) {
	t.Parallel()
	r, _ := examine(t, exec.Command(testlab.Need(t)))
	for _, c := range r.Checks {
		_, sysctls, ok := strings.Cut(c.Fix, "sysctls: ")
		if !ok || c.Verdict == doctor.OK {
			continue
		}
		_, value, _ := strings.Cut(strings.Trim(sysctls, "{}"), ": ")
		l := testlab.Start(t, "topology: {generate: {star: {hosts: 1}}, kinds: {host: {sysctls: "+sysctls+"}}}\n")
		if got := strings.TrimSpace(l.Exec("h1", "cat", "/proc/sys/net/ipv4/tcp_congestion_control")); got != value {
			t.Errorf("%s: %s became %s", c.Name, sysctls, got)
		}
	}
}

// TestDoctor_MeasuresAllAndLeavesNothing: where labs run, the doctor says so, with all figures; nothing is
// left behind, and it can run again.
func TestDoctor_MeasuresAllAndLeavesNothing(t *testing.T) {
	t.Parallel()
	weft, h := testlab.Need(t, "ip"), newHome(t, "whole")
	for range 2 {
		r, code := examine(t, h.command(weft))
		if code != 0 || r.Verdict == doctor.Bad || !r.Quick || r.Summary == "" {
			t.Errorf("exit code %d, %s: %s", code, r.Verdict, r.Summary)
		}
		m, p := r.Measured, r.Predict
		if m.Sleep == nil || m.WakeUp == nil || m.Devices == nil || m.Virtual == nil {
			t.Fatalf("measured %+v, left out %+v", m, r.LeftOut)
		}
		for name, v := range map[string]float64{
			"clock": float64(m.ClockRead), "sleep": float64(m.Sleep.P50), "p99": float64(m.Sleep.P99 - m.Sleep.P50), "max": float64(m.Sleep.Max), "wake-up": float64(*m.WakeUp),
			"small": m.Devices.Small, "large": m.Devices.Large, "1500": float64(m.Devices.TCP1500), "9000": float64(m.Devices.TCP9000), "offload": float64(m.Devices.Offload),
			"virtual": m.Virtual.Hops, "packets": p.Packets, "stream": float64(p.TCP1500), "jumbo": float64(p.TCP9000), "offloaded": float64(p.Offload),
			"round trip": float64(p.RoundTrip), "hop": float64(p.RoundPerHop), "lateness": float64(p.LatenessP99), "hosts": float64(p.Hosts),
		} {
			if v < 0 || v == 0 && name != "p99" {
				t.Errorf("%s is %v", name, v)
			}
		}
	}
	h.checkEmpty()
}

// TestDoctor_InterruptedLeavesNothing: the doctor ends early, and nothing is left behind either.
func TestDoctor_InterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	weft, h := testlab.Need(t, "ip"), newHome(t, "interrupted")
	c := h.command(weft, "doctor")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	await.True(t, "the doctor measures devices", func() bool {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.Process.Pid))
		return err == nil && slices.ContainsFunc(files, func(f string) bool {
			to, err := os.Readlink(f)
			return err == nil && to == "/dev/net/tun"
		})
	})
	if err := c.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); c.ProcessState.ExitCode() != 130 { // it would be 0 for a complete run
		t.Errorf("interrupted: %v", err)
	}
	h.checkEmpty()
}

// TestDoctor_WithoutRootSaysWhatIsMissing: what is missing is reported, what is possible is
// measured, and what is not is listed with the reason. Whether users may open
// /dev/net/tun differs between machines, so each case has its own node.
func TestDoctor_WithoutRootSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	own := copyForAll(t, weft)
	for _, c := range []struct {
		name string
		mode uint32
		tun  doctor.Verdict
	}{{"TunForRoot", 0o600, doctor.Bad}, {"TunForAll", 0o666, doctor.OK}} {
		t.Run(c.name, func(t *testing.T) {
			r, code := examineAsNobody(t, own, c.mode)
			verdict := func(name string) doctor.Verdict {
				i := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Name == name })
				if i < 0 {
					t.Fatalf("no check %q among %+v", name, r.Checks)
				}
				if r.Checks[i].Verdict != doctor.OK && r.Checks[i].Fix == "" {
					t.Errorf("%s: nothing is said of how to fix it: %+v", name, r.Checks[i])
				}
				return r.Checks[i].Verdict
			}
			if v := verdict("/dev/net/tun"); v != c.tun {
				t.Errorf("/dev/net/tun with mode %#o is %s, want %s", c.mode, v, c.tun)
			}
			// Some machines allow no user to create a user namespace: then no
			// lab runs, whatever the node's mode.
			want, wantCode := doctor.Warn, 0
			if verdict("capabilities") == doctor.Bad || c.tun == doctor.Bad {
				want, wantCode = doctor.Bad, 1
			}
			if verdict("capabilities") == doctor.OK || r.Verdict != want || code != wantCode {
				t.Errorf("capabilities %s, verdict %s, exit code %d; want verdict %s, exit code %d", verdict("capabilities"), r.Verdict, code, want, wantCode)
			}
			if r.Measured.Sleep == nil || r.Measured.WakeUp == nil || r.Measured.Virtual == nil {
				t.Errorf("measured %+v", r.Measured)
			}
			if r.Measured.Devices == nil && len(r.LeftOut) == 0 {
				t.Error("the devices were left out without a word")
			}
			if want != doctor.Bad && r.Measured.Devices == nil {
				t.Errorf("the devices were not measured: %+v", r.LeftOut)
			}
			for _, l := range r.LeftOut {
				if l.What == "" || l.Why == "" {
					t.Errorf("left out: %+v", l)
				}
			}
		})
	}
}

// copyForAll copies the command to where every user can run it.
func copyForAll(t *testing.T, weft string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-doctor-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(weft)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "weft")
	if err := os.WriteFile(own, program, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, own} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return own
}

// examineAsNobody runs weft doctor as an ordinary user, in a mount namespace in
// which /dev/net/tun has the given mode.
func examineAsNobody(t *testing.T, weft string, mode uint32) (r doctor.Result, code int) {
	t.Helper()
	const nobody = 65534
	failed := make(chan error)
	go func() {
		// The thread is not unlocked, so it ends with the goroutine, and the
		// namespace with it. Processes that it starts are in the namespace.
		runtime.LockOSThread()
		err := privateTun(mode)
		if err == nil {
			c := exec.Command(weft)
			c.Dir = "/"
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			r, code, err = tryExamine(c)
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return r, code
}

// privateTun gives the calling thread a mount namespace with a separate node as /dev/net/tun.
func privateTun(mode uint32) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/dev/net", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"); err != nil {
		return fmt.Errorf("mount over /dev/net: %w", err)
	}
	const tun = "/dev/net/tun"
	if err := unix.Mknod(tun, unix.S_IFCHR|mode, int(unix.Mkdev(10, 200))); err != nil {
		return fmt.Errorf("mknod %s: %w", tun, err)
	}
	return os.Chmod(tun, os.FileMode(mode)) // mknod heeds the umask
}
