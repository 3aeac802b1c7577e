package netnslab

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Program is a program to run in a host.
type Program struct {
	Argv []string
	Dir  string // working directory; the root where the host has no such directory

	// KernelRDMA shows the program the machine's RDMA devices in place of the host's
	// NICs (ShowVerbs).
	KernelRDMA bool
}

// ExecProgram runs a program inside a host of a running lab, with the host's view of the
// machine: see view. The program inherits the environment, the open files and the
// terminal of this process. It gets the signals that this process gets, except SIGSTOP
// and SIGKILL; if SIGKILL kills this process, the program dies too. Exec returns how
// the program ended, so that this process can end in the same way (EndAs).
//
// An error means that the program did not start. It wraps fs.ErrNotExist if the
// program does not exist, and fs.ErrPermission if the file cannot be executed.
func ExecProgram(lab, host string, p Program) (syscall.WaitStatus, error) {
	info, h, err := hostOf(lab, host)
	if err != nil {
		return 0, err
	}
	if len(p.Argv) == 0 {
		return 0, errors.New("no program given")
	}
	pidfd, err := openInit(info, h)
	if err != nil {
		return 0, err
	}
	defer unix.Close(pidfd)
	return runProgram(pidfd, lab, host, p)
}

func hostOf(lab, host string) (Info, HostInfo, error) {
	info, err := FindLab(lab)
	if err != nil {
		return info, HostInfo{}, err
	}
	if !info.Running {
		return info, HostInfo{}, fmt.Errorf("%w: the owner of %s died: weft down %s removes the rest", ErrNotRunning, lab, lab)
	}
	h, ok := info.Host(host)
	if !ok {
		return info, h, noHost(info, host)
	}
	if h.Virtual {
		return info, h, fmt.Errorf("host %s of lab %s is a virtual machine: programs enter it only through its agent", host, lab)
	}
	if h.Init == 0 {
		return info, h, fmt.Errorf("host %s of lab %s is being created: try again", host, lab)
	}
	return info, h, nil
}

// noHost says that a lab does not have a host. The error wraps ErrNoHost.
func noHost(info Info, host string) error {
	var names []string
	for _, h := range info.Hosts {
		names = append(names, h.Name)
	}
	return fmt.Errorf("%w %s: the hosts of lab %s are %s", ErrNoHost, host, info.Name, strings.Join(names, ", "))
}

// openInit returns a pidfd of a host's init.
func openInit(info Info, h HostInfo) (int, error) {
	fd, err := unix.PidfdOpen(h.Init, 0)
	if err == nil {
		// The number may belong to another process by now, or in this PID namespace:
		// inside a host numbers are the host's own.
		its, err1 := inodeOf(fmt.Sprintf("/proc/%d/ns/net", h.Init))
		host, err2 := inodeOf(namespacePath(h.Namespace))
		if err1 == nil && err2 == nil && its == host {
			return fd, nil
		}
		unix.Close(fd)
		err = unix.ESRCH
	}
	if inHost() {
		return 0, fmt.Errorf("this is inside a host, from which no other host can be entered: leave it first")
	}
	if errors.Is(err, unix.ESRCH) {
		return 0, fmt.Errorf("host %s has ended: its first process (pid %d), and so all its processes, were killed; to get it back restart the lab (weft down %s)", h.Name, h.Init, info.Name)
	}
	return 0, fmt.Errorf("host %s, process %d: %w", h.Name, h.Init, err)
}

// inHost reports whether this process is in a host: whether /run/netns was made by ownNetns.
func inHost() bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+netnsDir+" ") && strings.Contains(line, " - tmpfs "+mountSource+" ") {
			return true
		}
	}
	return false
}

// enterHost moves the calling thread into a host's namespaces, for good. The PID
// namespace applies to the processes that it starts.
func enterHost(pidfd int) error {
	// A thread that shares its root and working directory cannot enter another mount
	// namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("make a private root directory: %w", err)
	}
	return unix.Setns(pidfd, hostNamespaces|unix.CLONE_NEWNET)
}
