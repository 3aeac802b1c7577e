package wall

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// spareProcs is how many Ps the runtime has beyond the cores, so that the
// engine's thread finds one immediately when it returns from a sleep.
const spareProcs = 2

// lockThread gives the calling goroutine its own thread with the finest timers.
func lockThread() error {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()+spareProcs))
	// The default slack of 50 µs would be added to every sleep.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("timer slack: %w", err)
	}
	return nil
}

// epoll waits on a set of file descriptors with nanosecond time-outs.
type epoll struct {
	fd     int
	events [64]unix.EpollEvent
	ready  [64]int
}

func newEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &epoll{fd: fd}, err
}

// watchFD watches fd; wait returns index when fd is readable.
func (e *epoll) watchFD(fd, index int) error {
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index)})
}

// wait returns what is ready, after at most ns nanoseconds; a negative ns waits
// forever.
func (e *epoll) wait(ns int64) []int {
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
		// Go's scheduler must know about a sleep; otherwise a garbage
		// collection would wait until it ends.
		n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)), uintptr(unsafe.Pointer(ts)), 0, 0)
	}
	if errno != 0 { // EINTR: a signal to the process
		return nil
	}
	for i := range e.events[:n] {
		e.ready[i] = int(e.events[i].Fd)
	}
	return e.ready[:n]
}

// sleepFor sleeps for a time, whether or not devices are ready.
func sleepFor(t units.Time) {
	ts := unix.NsecToTimespec(int64(t / units.Nanosecond))
	_, _, _ = unix.Syscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

func (e *epoll) closeEpoll() { unix.Close(e.fd) }
