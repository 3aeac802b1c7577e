package testlab

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	netnslab "github.com/weftlab/weft/netns-lab"
)

// SuspendProgram stops a program in a guest or a host (SIGSTOP). resume continues it.
func (l *Lab) SuspendProgram(host, program string) (resume func()) {
	l.T.Helper()
	if l.isMachine(host) {
		l.Exec(host, "sh", "-c", "kill -STOP $(pidof "+program+")")
		return func() { l.T.Helper(); l.Exec(host, "sh", "-c", "kill -CONT $(pidof "+program+")") }
	}
	pids := l.Processes(host, program)
	if len(pids) == 0 {
		l.T.Fatalf("no %s runs in %s", program, host)
	}
	all := func(s syscall.Signal) {
		l.T.Helper()
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil {
				l.T.Fatalf("%v to the %s of %s: %v", s, program, host, err)
			}
		}
	}
	all(syscall.SIGSTOP)
	return func() { l.T.Helper(); all(syscall.SIGCONT) }
}

// EndPrograms sends SIGINT to the programs of a name that use a host's network, and waits until
// they have ended.
func (l *Lab) EndPrograms(host, program string) {
	l.T.Helper()
	for _, pid := range l.Processes(host, program) {
		_ = syscall.Kill(pid, syscall.SIGINT) // it may have ended by itself
	}
	l.WaitFor("the end of "+program+" in "+host, func() bool { return len(l.Processes(host, program)) == 0 })
}

// Processes returns the machine's PIDs of the programs of a name that use a
// host's network.
func (l *Lab) Processes(host, program string) (pids []int) {
	l.T.Helper()
	want, err := os.Stat(filepath.Join("/run/netns", netnslab.NamespaceName(l.Name, host)))
	if err != nil {
		l.T.Fatal(err)
	}
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		l.T.Fatal(err)
	}
	for _, comm := range comms {
		dir := filepath.Dir(comm)
		// A process may end while it is examined.
		name, err := os.ReadFile(comm)
		if err != nil || strings.TrimSpace(string(name)) != program {
			continue
		}
		if its, err := os.Stat(filepath.Join(dir, "ns/net")); err == nil && os.SameFile(its, want) {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
