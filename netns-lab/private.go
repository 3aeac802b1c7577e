package netnslab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// privateEtc takes the place of /etc/netns in a rootless lab, whose owner cannot
// create files in /etc. It exists only in the mount namespace of such a lab.
const privateEtc = "/run/weft-etc"

// privateState is stateDir for root, and for all processes inside.
const privateState = "/run/weft"

// inRootless reports whether this process is inside a rootless lab.
func inRootless() bool {
	_, err := os.Lstat(privateEtc)
	return err == nil
}

// EnterRootless prepares a process that was started with NewNamespaces: it mounts a
// private /run over the machine's, in which namespaces can be named, and labs made
// from then on have their state in dir.
func EnterRootless(dir string) error {
	// Through the descriptors both remain reachable under the new /run.
	run, err := os.Open("/run")
	if err != nil {
		return err
	}
	defer run.Close()
	state, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer state.Close()
	if err := unix.Mount(mountSource, "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return ExplainRootless(fmt.Errorf("mount a private /run: %w", err))
	}
	for _, d := range []string{netnsDir, privateEtc, privateState} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := bindAt(state, "", privateState); err != nil {
		return err
	}
	stateDir = privateState
	return carryAll(run, "/run")
}

// carryAll makes the entries that a directory had before something was mounted over
// it visible in to.
func carryAll(before *os.File, to string) error {
	entries, err := before.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := carryOver(before, e, filepath.Join(to, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // otherwise it has just gone
		}
	}
	return nil
}

// carryOver makes an entry of the machine's directory visible in the private one,
// unless that has its own entry of this name.
func carryOver(before *os.File, e fs.DirEntry, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		var target [unix.PathMax]byte
		n, err := unix.Readlinkat(int(before.Fd()), e.Name(), target[:])
		if err != nil {
			return err
		}
		return os.Symlink(string(target[:n]), to)
	case e.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	default: // for a mount, sockets and devices are ordinary files
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
	}
	return bindAt(before, e.Name(), to)
}

// bindAt binds the entry name of an open directory, or the directory itself if name is
// empty, with all mounts below it, to the path to. It needs no /proc, which a thread in
// the mounts of a host does not have.
func bindAt(dir *os.File, name, to string) error {
	fd, err := unix.OpenTree(int(dir.Fd()), name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mount %s in a private directory: %w", to, err)
	}
	defer unix.Close(fd)
	return moveTree(fd, to)
}

// moveTree mounts a copy of mounts at a path.
func moveTree(tree int, to string) error {
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return nil
}

// bindMount binds from, with all mounts below it, to the path to.
func bindMount(from, to string) error {
	if err := unix.Mount(from, to, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s over %s: %w", from, to, err)
	}
	return nil
}
