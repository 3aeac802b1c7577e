package testlab

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestUser is an ordinary user that does not exist on any machine.
const TestUser = 64123

// TunDevice is the device through which TUN and TAP devices are made.
const TunDevice = "/dev/net/tun"

// NewForUser returns a lab of an ordinary user, not started yet. Its file is in a
// directory of that user, who may open TUN devices while the test runs.
func NewForUser(t *testing.T, text string, programs ...string) *Lab {
	t.Helper()
	weft := Need(t, append(programs, "unshare", "nsenter")...)
	dir, err := os.MkdirTemp("", "weft-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{dir, filepath.Join(dir, "run")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, TestUser, TestUser); err != nil {
			t.Fatal(err)
		}
	}
	as := func(c *exec.Cmd) {
		c.Dir = dir
		c.Env = append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+filepath.Join(dir, "run"))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: TestUser, Gid: TestUser}}
	}
	probe := exec.Command("unshare", "--user", "--map-root-user", "--mount", "--net", "mount", "-t", "tmpfs", "none", "/mnt")
	as(probe)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: this kernel keeps user namespaces from ordinary users: %v: %s", err, out)
	}
	SetMode(t, TunDevice, 0o666)
	l := New(t, weft, dir, text)
	l.As = as
	return l
}

// SetMode changes a file's mode for the length of the test.
func SetMode(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	before, err := os.Stat(path)
	if err == nil {
		t.Cleanup(func() { _ = os.Chmod(path, before.Mode().Perm()) })
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
