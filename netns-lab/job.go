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

// job is a running program, for which this process stands in before its shell and its
// terminal, since the program is in another PID namespace. The program has a process
// group of its own, which gets what the terminal sends to this process's group: so
// each signal comes once, whoever sends it and to whom.
type job struct {
	pid int

	// tty is the controlling terminal; nil if there is none.
	tty   *os.File
	own   int  // this process's group
	front bool // the program's group is to be the terminal's when this one is
	has   bool // it is

	mu      sync.Mutex
	over    bool // its number means nothing any more
	signals chan os.Signal
}

// newJob finds out what there is of a terminal.
func newJob() *job {
	j := &job{own: unix.Getpgrp(), signals: make(chan os.Signal, 64)}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return j
	}
	j.tty = os.NewFile(uintptr(fd), "/dev/tty")
	// A job of a shell that is nothing but this process gets the terminal at once. In a
	// pipeline or a script others may use it too, so there it changes hands only when
	// the program asks for it: see stopped.
	j.front = j.inFront(j.own) && j.own == os.Getpid() && isTerminal(0) && isTerminal(1)
	j.has = j.front
	return j
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// inFront tells whether a process group is that of the terminal.
func (j *job) inFront(group int) bool {
	if j.tty == nil {
		return false
	}
	now, err := unix.IoctlGetInt(int(j.tty.Fd()), unix.TIOCGPGRP)
	return err == nil && now == group
}

// give makes a process group that of the terminal. The kernel wants a process that does
// that from the background to have SIGTTOU blocked or ignored (tcsetpgrp(3)).
func (j *job) give(group int) {
	before := block(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(j.tty.Fd()), unix.TIOCSPGRP, group)
	unblock(before)
	j.has = group == j.pid
}

// attributes are those that the program is started with.
func (j *job) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if j.front {
		a.Foreground, a.Ctty = true, int(j.tty.Fd())
	}
	return a
}

// ofTerminal tells which signals a terminal sends, to all of a process group.
func ofTerminal(s syscall.Signal) bool {
	switch s {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGHUP, unix.SIGWINCH, unix.SIGCONT:
		return true
	}
	return false
}

// catch begins to collect the signals that this process gets. Those that it was told to
// ignore the program ignores as well.
func (j *job) catch() {
	for s := syscall.Signal(1); s < 65; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP: // cannot be caught
		case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE: // about this process, and of its runtime
		case unix.SIGTTIN, unix.SIGTTOU: // about this process
		default:
			if !signal.Ignored(s) {
				signal.Notify(j.signals, s)
			}
		}
	}
}

// forward hands the signals to the program, until it has ended.
func (j *job) forward() {
	go func() {
		for s := range j.signals {
			j.send(s.(syscall.Signal))
		}
	}()
}

func (j *job) send(s syscall.Signal) {
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

// await waits until the program has ended, and stops and goes on with it.
func (j *job) await() (syscall.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(j.pid, &status, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			j.forget()
			return 0, fmt.Errorf("wait for the program: %w", err)
		case status.Stopped():
			j.stopped(status.StopSignal())
		default:
			j.forget()
			return syscall.WaitStatus(status), nil
		}
	}
}

// stopped does what a stop of the program asks for.
func (j *job) stopped(by syscall.Signal) {
	if j.tty == nil || by == unix.SIGSTOP {
		return // the one who has stopped it continues it
	}
	if (by == unix.SIGTTIN || by == unix.SIGTTOU) && j.inFront(j.own) {
		j.front = true
		j.give(j.pid)
		j.send(unix.SIGCONT)
		return
	}
	if j.has {
		j.give(j.own)
	}
	// The shell sees that its job has stopped. What follows happens when it goes on:
	// the signal is for this thread, so that it does not get further before.
	j.mu.Lock() // the program does not hear of it before it has the terminal
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
	if j.front && j.inFront(j.own) {
		j.give(j.pid)
	}
	j.mu.Unlock()
	j.send(unix.SIGCONT)
}

// forget ends what the job has of this process: signals mean this process again, and
// the terminal is this process's.
func (j *job) forget() {
	j.mu.Lock()
	j.over = true
	j.mu.Unlock()
	signal.Stop(j.signals)
	close(j.signals)
	if j.tty != nil {
		if j.has {
			j.give(j.own)
		}
		j.tty.Close()
	}
}

// block keeps a signal from the calling thread, whose goroutine is locked to it.
func block(s syscall.Signal) (before unix.Sigset_t) {
	var set unix.Sigset_t
	set.Val[(s-1)/64] |= 1 << ((s - 1) % 64)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, &before)
	return before
}

func unblock(before unix.Sigset_t) { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }

// defaultAction gives a signal its default action, which the runtime has taken from it,
// and lets it come to the calling thread.
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
