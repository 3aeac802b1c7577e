package testlab

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// firstUser is the first of the ordinary users of tests, which do not exist on any machine. Each
// test has its own, so that what it finds of its user is its own.
const firstUser = 64123

// TunDevice is the device through which TUN and TAP devices are made.
const TunDevice = "/dev/net/tun"

// NewForUser returns a lab of an ordinary user, not started yet. Its file is in a directory of
// that user, who may open TUN devices while the test runs.
func NewForUser(t *testing.T, text string, programs ...string) *Lab {
	t.Helper()
	weft := Need(t, append(programs, "unshare", "nsenter")...)
	turn, _ := turnOf(t.Name())
	user := uint32(firstUser + turn)
	dir, err := os.MkdirTemp("", "weft-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{dir, filepath.Join(dir, "run")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, int(user), int(user)); err != nil {
			t.Fatal(err)
		}
	}
	as := func(c *exec.Cmd) {
		c.Dir = dir
		c.Env = append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+filepath.Join(dir, "run"))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	probe := exec.Command("unshare", "--user", "--map-root-user", "--mount", "--net", "mount", "-t", "tmpfs", "none", "/mnt")
	as(probe)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: this kernel keeps user namespaces from ordinary users: %v: %s", err, out)
	}
	openTun(t)
	l := New(t, weft, dir, text)
	l.As, l.User = as, user
	return l
}

// openTun lets ordinary users open TUN devices while the test runs. Where they may not do so
// anyway, such tests run one after the other, as each restores what it has found.
func openTun(t *testing.T) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "weft-test-tun"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(TunDevice)
	if err != nil {
		t.Fatal(err)
	}
	const all = 0o666
	if before.Mode().Perm()&all == all {
		lock.Close()
		return
	}
	t.Cleanup(func() { _ = os.Chmod(TunDevice, before.Mode().Perm()); lock.Close() })
	if err := os.Chmod(TunDevice, all); err != nil {
		t.Fatal(err)
	}
}
