package netnslab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec turns this process into the program argv inside a host of a running lab,
// as `ip netns exec` would: with the host's devices in /sys and the files of
// /etc/netns/<namespace> in place of those in /etc. The environment, the open
// files and the terminal stay. It returns only on an error; one about a program
// that is not there wraps exec.ErrNotFound or fs.ErrNotExist. inside, if not nil, is
// called in the host's namespaces before the program starts.
func Exec(lab, host string, argv []string, inside func() error) error {
	ns, err := namespaceOf(lab, host)
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return errors.New("no program is named")
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("program %s: %w", argv[0], errors.Unwrap(err))
	}
	failed := make(chan error)
	go func() {
		// Not unlocked: on an error the thread ends with the goroutine, and
		// nothing else ever runs in the host by mistake.
		runtime.LockOSThread()
		if err := enter(ns); err != nil {
			failed <- fmt.Errorf("enter host %s of lab %s: %w", host, lab, err)
			return
		}
		if inside != nil {
			if err := inside(); err != nil {
				failed <- fmt.Errorf("host %s of lab %s: %w", host, lab, err)
				return
			}
		}
		failed <- fmt.Errorf("start %s: %w", program, syscall.Exec(program, argv, os.Environ()))
	}()
	return <-failed
}

func namespaceOf(lab, host string) (string, error) {
	info, err := Find(lab)
	if err != nil {
		return "", err
	}
	if !info.Running {
		return "", fmt.Errorf("%w: the owner of %s died: weft down %s removes what is left", ErrNotRunning, lab, lab)
	}
	var names []string
	for _, h := range info.Hosts {
		if h.Name == host && h.Virtual {
			return "", fmt.Errorf("host %s of lab %s is a virtual machine: programs get into it through its agent only", host, lab)
		}
		if h.Name == host {
			return h.Namespace, nil
		}
		names = append(names, h.Name)
	}
	return "", fmt.Errorf("lab %s has no host %s; its hosts are %s", lab, host, strings.Join(names, ", "))
}

// enter moves the calling thread into a namespace for good, with a view of the
// file system to match (iproute2, lib/namespace.c, netns_switch).
func enter(nsName string) error {
	if err := joinNamespace(nsName); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("a mount namespace of its own: %w", err)
	}
	// Mounts come in from outside as before, and none goes out.
	if err := unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := remountSys(nsName); err != nil {
		return fmt.Errorf("mount /sys for namespace %s: %w", nsName, err)
	}
	return bindEtc(nsName)
}

// remountSys shows the namespace's own devices in /sys/class/net. The mount is
// read-only if it was so before.
func remountSys(nsName string) error {
	var before unix.Statfs_t
	if err := unix.Statfs("/sys", &before); err != nil {
		return err
	}
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return unix.Mount(nsName, "/sys", "sysfs", uintptr(before.Flags)&unix.ST_RDONLY, "")
}

func bindEtc(nsName string) error {
	files, err := os.ReadDir(filepath.Join(etcDir(), nsName))
	if err != nil {
		return err
	}
	for _, f := range files {
		from, to := filepath.Join(etcDir(), nsName, f.Name()), filepath.Join("/etc", f.Name())
		if err := unix.Mount(from, to, "none", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s over %s: %w (the file must exist in /etc)", from, to, err)
		}
	}
	return nil
}
