package netnslab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// privateEtc takes the place of /etc/netns in a rootless lab, whose owner may
// make nothing in /etc. It is there in the mount namespace of such a lab only.
const privateEtc = "/run/weft-etc"

// privateState is where stateDir is for root, and for all that is inside.
const privateState = "/run/weft"

// inRootless tells whether this process is inside a rootless lab.
func inRootless() bool {
	_, err := os.Lstat(privateEtc)
	return err == nil
}

// EnterRootless prepares a process that was started with NewNamespaces: it puts
// a /run of its own over the machine's, in which namespaces can be named, and
// labs that are made from then on have their state in dir.
func EnterRootless(dir string) error {
	// By way of the descriptors both can be reached under the new /run.
	run, err := openPath("/run")
	if err != nil {
		return err
	}
	defer run.Close()
	state, err := openPath(dir)
	if err != nil {
		return err
	}
	defer state.Close()
	if err := unix.Mount("weft", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return ExplainRootless(fmt.Errorf("mount a private /run: %w", err))
	}
	for _, d := range []string{netnsDir, privateEtc, privateState} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := bind(state.Name(), privateState); err != nil {
		return err
	}
	stateDir = privateState
	return carryAll(run, "/run")
}

// openPath opens a directory as a place only. The file's name leads to it also
// when something else is mounted over its path.
func openPath(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
}

// carryAll shows what a directory had before something was mounted over it, in to.
func carryAll(before *os.File, to string) error {
	entries, err := os.ReadDir(before.Name())
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := carryOver(filepath.Join(before.Name(), e.Name()), filepath.Join(to, e.Name()), e)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // else it has just gone
		}
	}
	return nil
}

// carryOver shows an entry of the machine's directory in the private one, unless that
// has its own by this name.
func carryOver(from, to string, e fs.DirEntry) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case e.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	default: // to a mount, sockets and devices are files like any other
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
	}
	return bind(from, to)
}

// bind shows from, with all that is mounted in it, at to.
func bind(from, to string) error {
	if err := unix.Mount(from, to, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s in a private directory: %w", to, err)
	}
	return nil
}
