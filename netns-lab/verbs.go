package netnslab

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// VerbsSocket returns the path, in a lab's state directory, of the socket through
// which RDMA programs of a host reach its NICs. It exists if the host has any.
func VerbsSocket(dir, host string) string { return filepath.Join(dir, "verbs", host, "socket") }

// VerbsSys returns the directory beside it with the NICs' entries for /sys: class/infiniband,
// class/infiniband_verbs, and devices/weft with a directory for each NIC.
func VerbsSys(dir, host string) string { return filepath.Join(dir, "verbs", host, "sys") }

// The files of a host's NICs: a directory in its own /dev.
const (
	verbsDir       = "/dev/weft"
	verbsSocket    = verbsDir + "/verbs" // as in nicemu/verbs/weft.h
	verbsSys       = verbsDir + "/sys"
	verbsLibraries = verbsDir + "/lib"
	verbsCovers    = verbsDir + "/covers" // lists the mounts that hideVerbs removes
)

// ShowVerbs gives a host its NICs: their devices in /dev/infiniband and /sys, the
// socket (VerbsSocket) at its fixed place, and the libraries of the directory libraries
// in place of the system's. Programs find all of this without environment variables.
// The devices cannot be used: programs only check that they exist. counters is a served
// mount of the NICs' counters, by device and port; -1 if there is none. ShowVerbs is
// called for one host at a time.
func (l *Lab) ShowVerbs(host, libraries string, counters int) error {
	var on *hostInit
	for i, h := range l.info.Hosts {
		if h.Name == host && l.hosts[i].init != nil {
			on = l.hosts[i].init
		}
	}
	if on == nil {
		return fmt.Errorf("lab %s has no host %s that programs run in", l.info.Name, host)
	}
	// Copies of mounts: paths differ inside.
	var trees []int
	defer func() {
		for _, fd := range trees {
			unix.Close(fd)
		}
	}()
	places := []string{verbsSocket, verbsSys, verbsLibraries}
	for _, from := range []string{VerbsSocket(l.info.Dir, host), VerbsSys(l.info.Dir, host), libraries} {
		fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("make %s visible in host %s: %w", from, host, err)
		}
		trees = append(trees, fd)
	}
	return inMounts(on.fd, func() error {
		err := showVerbs(places, trees, &l.cache)
		if err == nil && counters >= 0 {
			err = bindCounters(counters)
		}
		return err
	})
}

// inMounts runs f on a thread in the mount namespace of a process. The thread ends afterwards.
func inMounts(pidfd int, f func() error) error {
	done := make(chan error)
	go notMainThread(func() {
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(pidfd, unix.CLONE_NEWNS)
		}
		if err != nil {
			done <- fmt.Errorf("enter the host's mounts: %w", err)
			return
		}
		done <- f()
	})
	return <-done
}

// notMainThread runs f on a thread that ends afterwards. It is not the main thread,
// which shows other processes the namespaces of this one (/proc/PID/ns).
func notMainThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f() // the thread ends with the goroutine
		return
	}
	// While this goroutine holds the main thread, no other goroutine gets it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
	runtime.UnlockOSThread()
}

// showVerbs does the work of ShowVerbs inside the host.
func showVerbs(places []string, trees []int, cache *linkerCache) error {
	err := coverDirectory("/dev", func(before *os.File, dir string) error {
		if err := os.Mkdir(verbsDir, 0o755); err != nil {
			return err
		}
		for i, at := range places {
			if err := placeMount(trees[i], at); err != nil {
				return err
			}
		}
		devices, err := os.ReadDir(filepath.Join(verbsSys, "class/infiniband_verbs"))
		if err != nil {
			return err
		}
		names := []string{"rdma_cm"}
		for _, d := range devices {
			if d.Type()&fs.ModeSymlink != 0 {
				names = append(names, d.Name())
			}
		}
		return standIns(before, filepath.Join(dir, "infiniband"), names)
	})
	if err != nil {
		return fmt.Errorf("show RDMA devices in /dev: %w", err)
	}
	covers, err := coverSys()
	if err != nil {
		return fmt.Errorf("show RDMA devices in /sys: %w", err)
	}
	libraries, err := cache.coverLibraries()
	if err != nil {
		return fmt.Errorf("replace the system's RDMA libraries: %w", err)
	}
	covers = append(append(libraries, covers...), "/dev")
	return os.WriteFile(verbsCovers, []byte(strings.Join(covers, "\n")+"\n"), 0o644)
}

// hideVerbs undoes showVerbs for this process and for those that it will start.
func hideVerbs() error {
	list, err := os.Open(verbsCovers)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the host has no NIC
	}
	if err != nil {
		return err
	}
	defer list.Close()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		if err := unix.Unmount(lines.Text(), unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

// placeMount creates a path and moves a copy of a mount there.
func placeMount(tree int, at string) error {
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	var err error
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(at, 0o755)
	} else {
		err = os.WriteFile(at, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return moveTree(tree, at)
}

// coverDirectory mounts a private directory over dir. add makes entries in it, which take
// precedence over the entries of dir; before is the old dir.
func coverDirectory(dir string, add func(before *os.File, dir string) error) error {
	before, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer before.Close()
	if err := unix.Mount(mountSource, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755"); err != nil {
		return err
	}
	if err := add(before, dir); err != nil {
		return err
	}
	return carryAll(before, dir)
}

// bindAll binds the directories of from into to.
func bindAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := filepath.Join(to, e.Name())
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		if err := bindMount(filepath.Join(from, e.Name()), at); err != nil {
			return err
		}
	}
	return nil
}

// standIns makes character devices with these names: each is the null device of dev.
func standIns(dev *os.File, dir string, names []string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, n := range names {
		at := filepath.Join(dir, n)
		if err := os.WriteFile(at, nil, 0o666); err != nil {
			return err
		}
		if err := bindAt(dev, "null", at); err != nil {
			return err
		}
	}
	return nil
}
