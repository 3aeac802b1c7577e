package doctor

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/links/device/uring"
	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/sim/units"
)

// machine is what the checks examine: a file system with /proc and /sys, and
// functions for what only a system call can answer.
type machine struct {
	fs       fs.FS // its root is /
	release  func() (string, error)
	open     func(path string) error // for reading and writing
	fifo     func() error            // sets SCHED_FIFO on a thread that then ends
	bpf      func() error            // loads a BPF program
	uring    func() error            // makes an io_uring
	lookPath func(program string) (string, error)
	qemu     func() (string, error)                // its path
	image    func() (string, error)                // the directory of the built-in guest image
	free     func(dir string) (units.Bytes, error) // for this user
	tempDir  string
}

func thisMachine() *machine {
	return &machine{
		fs: os.DirFS("/"), release: kernelRelease, open: openBoth, bpf: loadBPF, lookPath: exec.LookPath, free: freeSpace, tempDir: os.TempDir(),
		qemu: vm.FindQEMU, image: vm.FindImage,
		uring: makeUring,
		fifo:  func() error { return wall.OnThread(wall.Realtime, func() error { return nil }) },
	}
}

// makeUring creates an io_uring as an engine does.
func makeUring() error {
	return wall.OnThread(wall.Ordinary, func() error {
		r, err := uring.New(1, 1)
		if err == nil {
			r.Close()
		}
		return err
	})
}

// runChecks makes all checks that need no namespace.
func (m *machine) runChecks() []Check {
	var all []Check
	for _, f := range []func() []Check{m.checkMachine, m.checkPrivileges, m.checkKernel, m.checkLimits, m.checkTools} {
		all = append(all, f()...)
	}
	return all
}

// readText returns a file's text without white space around it, "" if the file does not exist.
func (m *machine) readText(path string) string {
	b, err := fs.ReadFile(m.fs, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// readNumber reads a file that contains one number.
func (m *machine) readNumber(path string) (n int64, ok bool) {
	n, err := strconv.ParseInt(m.readText(path), 10, 64)
	return n, err == nil
}

func (m *machine) fileExists(path string) bool {
	_, err := fs.Stat(m.fs, path)
	return err == nil
}

// readField returns the value of the line "name: value" in a file, "" if there is none.
func (m *machine) readField(path, name string) string {
	for line := range strings.Lines(m.readText(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	err := unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:]), err
}

func openBoth(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func freeSpace(dir string) (units.Bytes, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return units.Bytes(s.Bavail) * units.Bytes(s.Bsize), err
}

// reasonOf returns the text of an error without its path and call.
func reasonOf(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}
