package netnslab

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// grace is how long a program may take to end after SIGTERM.
	grace = time.Second

	// killWait is how long a killed process may take to disappear. Only one that
	// hangs in the kernel takes longer.
	killWait = 30 * time.Second
)

// endProcesses ends the processes in these network namespaces, except the PIDs in
// spared and this process. It sends SIGTERM, and SIGKILL to those that are left after
// grace. It returns when none is left.
func endProcesses(inodes map[inode]bool, spared map[int]bool) error {
	if len(inodes) == 0 {
		return nil
	}
	signal, timeout := unix.SIGTERM, grace
	for deadline := time.Now().Add(grace + killWait); ; {
		processes, err := processesIn(inodes, spared)
		if err != nil || len(processes) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			defer closeAll(processes)
			return fmt.Errorf("process %d does not end even after SIGKILL, so its host cannot be removed: see /proc/%d/stack", processes[0].pid, processes[0].pid)
		}
		for _, p := range processes {
			// The only possible error is that it has ended by itself.
			_ = unix.PidfdSendSignal(p.fd, signal, nil, 0)
		}
		awaitEnd(processes, timeout)
		closeAll(processes)
		// Processes that remain, or were started meanwhile, get no more grace.
		signal, timeout = unix.SIGKILL, killWait
	}
}

// inode identifies a namespace.
type inode struct{ device, number uint64 }

func inodeOf(path string) (inode, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return inode{}, err
	}
	return inode{device: st.Dev, number: st.Ino}, nil
}

// findInodes finds the existing namespaces of a lab.
func (i Info) findInodes() map[inode]bool {
	if i.Rootless && !inRootless() {
		return i.inodesSeenInside()
	}
	return i.inodesUnder("/")
}

// inodesUnder finds the namespaces by name in the file system with this root.
func (i Info) inodesUnder(root string) map[inode]bool {
	inodes := map[inode]bool{}
	for _, name := range i.namespaceNames() {
		if id, err := inodeOf(filepath.Join(root, namespacePath(name))); err == nil {
			inodes[id] = true
		}
	}
	return inodes
}

// inodesSeenInside finds the namespaces of a rootless lab whose owner is dead: their
// names are left only in the mount namespaces of the programs in them. An inode
// number from the journal would not suffice, because the kernel reuses it.
func (i Info) inodesSeenInside() map[inode]bool {
	found := map[inode]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	home, _ := inodeOf("/proc/self/ns/net")
	for _, p := range processes {
		its, err := inodeOf(filepath.Join(p, "ns/net"))
		if err != nil || its == home || found[its] {
			continue
		}
		if seen := i.inodesUnder(filepath.Join(p, "root")); seen[its] {
			maps.Copy(found, seen)
		}
	}
	return found
}

// process is held by a pidfd, so that a signal never reaches a later process with
// the same number.
type process struct{ pid, fd int }

func closeAll(processes []process) {
	for _, p := range processes {
		unix.Close(p.fd)
	}
}

// processesIn finds the processes in the namespaces, except this one and those in spared.
// Only a process's main thread counts: a process that works there with another thread (as
// `weft up` itself does) is not included.
func processesIn(namespaces map[inode]bool, spared map[int]bool) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || spared[pid] {
			continue
		}
		inside := func() bool {
			id, err := inodeOf(filepath.Join("/proc", e.Name(), "ns/net"))
			return err == nil && namespaces[id]
		}
		if !inside() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH {
			continue
		}
		if err != nil {
			closeAll(found)
			return nil, fmt.Errorf("open process %d to end it: %w", pid, err)
		}
		if !inside() { // the number was reused by another process just before
			unix.Close(fd)
			continue
		}
		found = append(found, process{pid, fd})
	}
	return found, nil
}

// awaitEnd waits until all processes have ended, or for the given time.
func awaitEnd(processes []process, maxWait time.Duration) {
	deadline := time.Now().Add(maxWait)
	for _, p := range processes {
		poll := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		for {
			left := max(time.Until(deadline), 0)
			if _, err := unix.Poll(poll, int(left.Milliseconds())); err != unix.EINTR {
				break
			}
		}
	}
}
