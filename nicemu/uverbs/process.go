package uverbs

import (
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu/memory"
)

// host is the memory of a process.
type host interface {
	memory.Backing
	// hasMapped reports whether the first and the last of n bytes can be read.
	hasMapped(addr, n uint64) bool
	// isConnected reports whether the process still exists and runs the same program.
	isConnected() bool
	// openFile opens the file of a descriptor of the process, for its inode only. EBADF: there is none.
	openFile(fd int) (int, error)
	// markEnded ends all access.
	markEnded()
	// closeProcess closes descriptors, once the memory is no longer used.
	closeProcess()
}

// process is the memory of the process behind a session, for as long as that process lives and runs
// the same program. It implements memory.Backing. Its methods except close are called on the
// engine's thread.
//
// Bytes are moved by process ID, which can come to mean another program: the process ends and the
// ID is reused, or it calls execve(2). That ends its session only if no other process, such as a
// child, has its end of the socket. So before each access, here checks that the address space still
// exists that the process had when it connected, through a descriptor of /proc/PID/mem, which
// refers to no other.
//
// Two things go unnoticed: changes between that check and the access, and the end of a process that
// shares its address space with another (clone(2) with CLONE_VM). The socket is for the lab's owner
// alone (Server.Listen), so any memory reached then belongs to the owner as well.
type process struct {
	pid   int
	space int // /proc/PID/mem
	ended bool

	// State of the current call, kept here so that it does not allocate.
	local  unix.Iovec
	remote struct{ base, len uint64 }
	peek   [1]byte
}

// peerOf finds the process at the other end of a socket.
func peerOf(socket int) (*process, error) {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("peer of a socket: %w", err)
	}
	// Use the process ID if the kernel is older than 6.5: then it may have been reused since.
	pidfd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		pidfd, err = unix.PidfdOpen(int(peer.Pid), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", peer.Pid, err)
	}
	return openProcess(int(peer.Pid), pidfd)
}

// openProcess opens the address space of the process that pidfd refers to, and whose ID is pid. It
// closes pidfd.
func openProcess(pid, pidfd int) (*process, error) {
	defer unix.Close(pidfd)
	space, err := unix.Open(fmt.Sprintf("/proc/%d/mem", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p := &process{pid: pid, space: space}
	// If it exists now, its ID was its own a moment ago.
	if ended, err := isReadable(pidfd); err != nil || ended || !p.isConnected() {
		p.closeProcess()
		return nil, fmt.Errorf("process %d: %w", pid, syscall.ESRCH)
	}
	return p, nil
}

// isReadable reports whether a descriptor can be read. It retries after a signal, which Go's runtime
// sends to itself.
func isReadable(fd int) (bool, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return n > 0, err
		}
	}
}

// isConnected reports whether the process is still the one that connected.
func (p *process) isConnected() bool {
	if !p.ended {
		// Nothing is mapped at 0 unless a program insists: an existing space returns a byte or EIO,
		// one that has ended returns end of file.
		n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(p.space), uintptr(unsafe.Pointer(&p.peek[0])), 1, 0, 0, 0)
		p.ended = errno == 0 && n == 0
	}
	return !p.ended
}

// LoadBytes implements memory.Backing.
func (p *process) LoadBytes(dst []byte, addr uint64, n uint32) ([]byte, memory.Fault) {
	from := len(dst)
	dst = slices.Grow(dst, int(n))[:from+int(n)]
	if f := p.moveBytes(unix.SYS_PROCESS_VM_READV, addr, dst[from:]); f != memory.OK {
		return dst[:from], f
	}
	return dst, memory.OK
}

// StoreBytes implements memory.Backing.
func (p *process) StoreBytes(addr uint64, data []byte) memory.Fault {
	return p.moveBytes(unix.SYS_PROCESS_VM_WRITEV, addr, data)
}

// moveBytes copies all of b, which is not empty, from or to the process. If the process has ended since
// here checked, the call fails with ESRCH.
func (p *process) moveBytes(call uintptr, addr uint64, b []byte) memory.Fault {
	if !p.isConnected() {
		return memory.Gone
	}
	p.local.Base, p.local.Len = &b[0], uint64(len(b))
	p.remote.base, p.remote.len = addr, uint64(len(b))
	n, _, errno := unix.RawSyscall6(call, uintptr(p.pid), uintptr(unsafe.Pointer(&p.local)), 1, uintptr(unsafe.Pointer(&p.remote)), 1, 0)
	p.local.Base = nil
	switch {
	case errno == unix.ESRCH:
		return memory.Gone
	case errno != 0 || int(n) != len(b):
		return memory.Unmapped
	}
	return memory.OK
}

// hasMapped implements host.
func (p *process) hasMapped(addr, n uint64) bool {
	var b [1]byte
	return p.moveBytes(unix.SYS_PROCESS_VM_READV, addr, b[:]) == memory.OK && p.moveBytes(unix.SYS_PROCESS_VM_READV, addr+n-1, b[:]) == memory.OK
}

// openFile implements host.
func (p *process) openFile(fd int) (int, error) {
	file, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", p.pid, fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil && !p.isConnected() {
		unix.Close(file)
		err = syscall.EIO
	}
	switch err {
	case nil:
		return file, nil
	case syscall.ENOENT:
		err = syscall.EBADF
	}
	return -1, fmt.Errorf("%w: descriptor %d of process %d", err, fd, p.pid)
}

// markEnded implements host.
func (p *process) markEnded() { p.ended = true }

// closeProcess implements host.
func (p *process) closeProcess() { unix.Close(p.space) }
