package wall

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spareProcs is how many Ps the runtime has beyond the cores, so that the
// engine's thread finds one at once when it comes back from a sleep.
const spareProcs = 2

// priority under SCHED_FIFO: the lowest, which is above every ordinary
// program.
const priority = 1

// lockThread gives the calling goroutine a thread of its own with the finest
// timers, and real-time scheduling if asked for and allowed. It reports
// whether the thread is a real-time one.
func lockThread(realtime bool) (isRealtime bool, err error) {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()+spareProcs))
	// The default slack of 50 µs would be added to every sleep.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return false, fmt.Errorf("timer slack: %w", err)
	}
	if !realtime {
		return false, nil
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return false, fmt.Errorf("SCHED_FIFO: %w (grant CAP_SYS_NICE or an rtprio limit, or set engine: {realtime: off})", err)
	}
	return true, nil
}

// epoll waits on a set of file descriptors with nanosecond time-outs.
type epoll struct {
	fd     int
	events [64]unix.EpollEvent
}

func newEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &epoll{fd: fd}, err
}

// add watches fd; index comes back when it is readable.
func (e *epoll) add(fd, index int) error {
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index)})
}

// wait returns what is ready, after at most ns nanoseconds; negative waits
// for ever.
func (e *epoll) wait(ns int64) []unix.EpollEvent {
	var ts *unix.Timespec
	if ns >= 0 {
		t := unix.NsecToTimespec(ns)
		ts = &t
	}
	var n uintptr
	var errno unix.Errno
	if ns == 0 {
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)), uintptr(unsafe.Pointer(ts)), 0, 0)
	} else {
		// A sleep must be known to Go's scheduler, or a garbage collection
		// would wait for its end.
		n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)), uintptr(unsafe.Pointer(ts)), 0, 0)
	}
	if errno != 0 { // EINTR: a signal to the process
		return nil
	}
	return e.events[:n]
}

func (e *epoll) close() { unix.Close(e.fd) }
