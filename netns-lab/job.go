package netnslab

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// job is a running program. This process represents it to its shell and its terminal,
// since the program is in another PID namespace. The program has its own process
// group, to which signals from the terminal to this process's group are forwarded: so
// each signal arrives once, whoever sends it and to whom.
type job struct {
	pid int

	// tty is the controlling terminal; nil if there is none.
	tty   *os.File
	own   int  // this process's group
	front bool // the program's group should be in the foreground when this one is
	has   bool // it is in the foreground

	mu      sync.Mutex
	over    bool // its PID is no longer valid
	signals chan os.Signal
}

// newJob makes a job and finds its terminal, if any.
func newJob() *job {
	j := &job{own: unix.Getpgrp(), signals: make(chan os.Signal, 64)}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return j
	}
	j.tty = os.NewFile(uintptr(fd), "/dev/tty")
	// A shell's job that consists of this process alone gets the terminal at once. In a
	// pipeline or a script other processes may use it too, so there the program gets it
	// only when it asks for it: see stopped.
	j.front = j.inFront(j.own) && j.own == os.Getpid() && isTerminal(0) && isTerminal(1)
	j.has = j.front
	return j
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// inFront reports whether a process group is in the terminal's foreground.
func (j *job) inFront(group int) bool {
	if j.tty == nil {
		return false
	}
	now, err := unix.IoctlGetInt(int(j.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && now == group
}

// setForeground makes a process group the terminal's foreground group. A background process may
// do that only with SIGTTOU blocked or ignored (tcsetpgrp(3)).
func (j *job) setForeground(group int) {
	before := blockSignal(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(j.tty.Fd()), unix.TIOCSPGRP, group)
	restoreMask(before)
	j.has = group == j.pid
}

// procAttributes returns the attributes to start the program with.
func (j *job) procAttributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if j.front {
		a.Foreground, a.Ctty = true, int(j.tty.Fd())
	}
	return a
}

// ofTerminal reports whether a terminal sends signal s to a process group.
func ofTerminal(s syscall.Signal) bool {
	switch s {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGHUP, unix.SIGWINCH, unix.SIGCONT:
		return true
	}
	return false
}

// catchSignals begins to collect the signals that this process gets. The program also ignores
// the signals that this process ignores.
func (j *job) catchSignals() {
	for s := syscall.Signal(1); s < 65; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP: // cannot be caught
		case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE: // concern this process and its runtime
		case unix.SIGTTIN, unix.SIGTTOU: // concern this process
		default:
			if !signal.Ignored(s) {
				signal.Notify(j.signals, s)
			}
		}
	}
}

// forwardSignals sends the signals on to the program until it has ended.
func (j *job) forwardSignals() {
	go func() {
		for s := range j.signals {
			j.sendSignal(s.(syscall.Signal))
		}
	}()
}

func (j *job) sendSignal(s syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.over:
	case ofTerminal(s):
		_ = unix.Kill(-j.pid, s)
	default:
		_ = unix.Kill(j.pid, s)
	}
}

// awaitEnd waits until the program has ended. It stops and continues with the program.
func (j *job) awaitEnd() (syscall.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(j.pid, &status, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			j.releaseProcess()
			return 0, fmt.Errorf("wait for the program: %w", err)
		case status.Stopped():
			j.handleStop(status.StopSignal())
		default:
			j.releaseProcess()
			return syscall.WaitStatus(status), nil
		}
	}
}

// handleStop handles a stop of the program.
func (j *job) handleStop(by syscall.Signal) {
	if j.tty == nil || by == unix.SIGSTOP {
		return // whoever stopped it will continue it
	}
	if (by == unix.SIGTTIN || by == unix.SIGTTOU) && j.inFront(j.own) {
		j.front = true
		j.setForeground(j.pid)
		j.sendSignal(unix.SIGCONT)
		return
	}
	if j.has {
		j.setForeground(j.own)
	}
	// Show the shell that its job has stopped. The code below runs when the job
	// continues: the signal goes to this thread, so that it stops right here.
	j.mu.Lock() // the program is not continued before it has the terminal
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
	if j.front && j.inFront(j.own) {
		j.setForeground(j.pid)
	}
	j.mu.Unlock()
	j.sendSignal(unix.SIGCONT)
}

// releaseProcess releases the job's hold on this process: signals act on this process again,
// and it gets the terminal back.
func (j *job) releaseProcess() {
	j.mu.Lock()
	j.over = true
	j.mu.Unlock()
	signal.Stop(j.signals)
	close(j.signals)
	if j.tty != nil {
		if j.has {
			j.setForeground(j.own)
		}
		j.tty.Close()
	}
}

// blockSignal blocks a signal in the calling thread, to which its goroutine is locked.
func blockSignal(s syscall.Signal) (before unix.Sigset_t) {
	var set unix.Sigset_t
	set.Val[(s-1)/64] |= 1 << ((s - 1) % 64)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, &before)
	return before
}

func restoreMask(before unix.Sigset_t) { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }

// defaultAction restores a signal's default action, which the runtime has replaced, and
// unblocks it in the calling thread.
func defaultAction(s syscall.Signal) {
	var action struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action.mask), 0, 0)
	var set unix.Sigset_t
	set.Val[(s-1)/64] |= 1 << ((s - 1) % 64)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
}
