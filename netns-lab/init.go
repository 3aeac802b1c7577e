package netnslab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostInit is the first process of a host, as seen by the lab's owner. It holds the
// host's PID, mount, UTS and IPC namespaces: when it ends, the kernel kills all
// processes in them (pid_namespaces(7)).
type hostInit struct {
	pid, fd int // fd is a pidfd
}

// The descriptors of an init.
const (
	initLife   = 3 // EOF when the owner has ended: see lifeline
	initOrders = 4 // carries the view of its host in, and the answer out
)

// hostNamespaces are the new namespaces of an init, in addition to the network namespace.
const hostNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// startInit starts the init of a host and returns when the host's view of the machine
// is complete. It is called on a thread that is in the host's network namespace.
func startInit(life *os.File, v view) (*hostInit, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, its := os.NewFile(uintptr(pair[0]), "orders"), os.NewFile(uintptr(pair[1]), "orders")
	defer ours.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		its.Close()
		return nil, err
	}
	defer null.Close()
	i := &hostInit{fd: -1}
	i.pid, err = syscall.ForkExec(self, []string{initName, v.Name}, &syscall.ProcAttr{
		Dir: "/",
		// One thread for Go's code is enough.
		Env:   []string{"GOMAXPROCS=1", "PATH=/usr/bin:/bin"},
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), life.Fd(), its.Fd()},
		Sys:   &syscall.SysProcAttr{Cloneflags: hostNamespaces, Setsid: true, PidFD: &i.fd},
	})
	its.Close()
	if err != nil {
		return nil, fmt.Errorf("start a process in new namespaces: %w%s", err, limitHint(err))
	}
	if i.fd < 0 { // a kernel without CLONE_PIDFD
		if i.fd, err = unix.PidfdOpen(i.pid, 0); err != nil {
			err = fmt.Errorf("open process %d: %w", i.pid, err)
			_ = unix.Kill(i.pid, unix.SIGKILL)
			_, _ = unix.Wait4(i.pid, nil, 0, nil)
			return nil, err
		}
	}
	if err := i.sendOrders(ours, v); err != nil {
		return nil, errors.Join(err, i.killInit())
	}
	return i, nil
}

// sendOrders sends the init its orders and waits for its answer, which is initReady if
// all went well.
func (i *hostInit) sendOrders(orders *os.File, v view) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := orders.Write(b); err != nil {
		return fmt.Errorf("the host's first process: %w", err)
	}
	if err := unix.Shutdown(int(orders.Fd()), unix.SHUT_WR); err != nil {
		return err
	}
	answer, err := io.ReadAll(orders)
	switch {
	case err != nil:
		return fmt.Errorf("the host's first process: %w", err)
	case string(answer) == initReady:
		return nil
	case len(answer) == 0:
		return errors.New("the host's first process ended before the host was ready")
	}
	return errors.New(string(answer))
}

// initReady is an init's answer when its host is ready.
const initReady = "ready"

// killInit ends the init, and thereby all processes in its host, and waits until they are gone.
func (i *hostInit) killInit() error {
	defer unix.Close(i.fd)
	_ = unix.PidfdSendSignal(i.fd, unix.SIGKILL, nil, 0) // fails only if it has ended
	me := []process{{i.pid, i.fd}}
	awaitEnd(me, grace)
	if _, err := inodeOf(fmt.Sprintf("/proc/%d/ns/net", i.pid)); err != nil {
		// It has ended, or has released everything and waits for a process outside to
		// reap a program: a program whose weft exec was killed is a child of the
		// machine's first process, which in some containers does not reap children.
		_, _ = unix.Wait4(i.pid, nil, unix.WNOHANG, nil)
		return nil
	}
	awaitEnd(me, killWait)
	if pid, err := unix.Wait4(i.pid, nil, unix.WNOHANG, nil); err == nil && pid == 0 {
		return fmt.Errorf("process %d does not end even after SIGKILL, so its host cannot be removed: see /proc/%d/stack", i.pid, i.pid)
	}
	return nil
}

// runInit runs as a host's init. It ignores signals, so that a signal to all processes
// of the host does not affect it, and the kernel reaps the host's orphans
// (sigaction(2), SIGCHLD).
func runInit() {
	signal.Ignore()
	orders := os.NewFile(initOrders, "orders")
	var v view
	err := json.NewDecoder(orders).Decode(&v)
	if err == nil {
		err = v.arrangeView()
	}
	if err != nil {
		_, _ = orders.WriteString(err.Error())
		os.Exit(1)
	}
	_, _ = orders.WriteString(initReady)
	orders.Close()
	becomeSmall()
	var b [1]byte
	for {
		if _, err := unix.Read(initLife, b[:]); err != unix.EINTR {
			os.Exit(0)
		}
	}
}

// becomeSmall replaces this process with cat(1) and returns only if there is none.
// All that remains is to read until the owner ends, in whatever way. cat ignores
// signals as this process does, and needs a thirtieth of its memory.
func becomeSmall() {
	cat, err := exec.LookPath("cat")
	if err != nil {
		return
	}
	name := initName
	if real, err := filepath.EvalSymlinks(cat); err != nil || filepath.Base(real) != "cat" {
		name = "cat" // a multi-call binary such as busybox selects by this name
	}
	if unix.Dup2(initLife, 0) == nil {
		unix.CloseOnExec(initLife)
		_ = syscall.Exec(cat, []string{name}, nil)
	}
}

// lifeline is a pipe from which a lab's inits read until its owner ends.
type lifeline struct{ read, write *os.File }

func newLifeline() (*lifeline, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &lifeline{r, w}, nil
}

func (l *lifeline) closeLifeline() {
	l.read.Close()
	l.write.Close()
}
