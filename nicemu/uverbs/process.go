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
	// mapped tells whether the first and the last of n bytes can be read.
	mapped(addr, n uint64) bool
	// forget ends all access.
	forget()
	// close closes descriptors, when nobody uses the memory any more.
	close()
}

// process is the memory of the process behind a session, for as long as that process
// lives, is the same program and has not hung up. It implements memory.Backing. Its
// methods but close are called on the engine's thread.
//
// Bytes are moved by the process's number, which can come to mean another program:
// the process ends and the number is given again, or it calls execve(2). Its end of
// the socket is closed then, but a child or whoever else was given that end may keep
// it open. So before each access here looks at all three: the socket, the process by
// a descriptor that means no other, and its address space by one of /proc/PID/mem,
// which means the one that it had when it connected. What happens in the moment
// between that and the access cannot be seen. The socket is for the lab's owner alone
// (Server.Listen), so what might be reached in that moment is the owner's as well.
type process struct {
	pid    int
	socket int // of the session, which closes it
	pidfd  int
	space  int // /proc/PID/mem
	gone   bool

	// Of the call under way: here, so that it does not allocate.
	local  unix.Iovec
	remote struct{ base, len uint64 }
	events [2]unix.PollFd
	now    unix.Timespec
	peek   [1]byte
}

// peerOf finds the process at the other end of a socket.
func peerOf(socket int) (*process, error) {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("peer of a socket: %w", err)
	}
	p := &process{pid: int(peer.Pid), socket: socket}
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("process %d: %w", peer.Pid, err)
	}
	return p, nil
}

// open gets hold of the process and its address space.
func (p *process) open() (err error) {
	p.space = -1
	// By its number, where the kernel is older than 6.5: then it may be another's that
	// has it since.
	if p.pidfd, err = unix.GetsockoptInt(p.socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err != nil {
		p.pidfd, err = unix.PidfdOpen(p.pid, 0)
	}
	if err == nil {
		p.space, err = unix.Open(fmt.Sprintf("/proc/%d/mem", p.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil && !p.here() {
		err = syscall.ESRCH
	}
	if err != nil {
		p.close()
	}
	return err
}

// here tells whether the process is still the one that has connected.
func (p *process) here() bool {
	if p.gone {
		return false
	}
	p.events = [2]unix.PollFd{{Fd: int32(p.socket), Events: unix.POLLRDHUP}, {Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(unsafe.Pointer(&p.now)), 0, 0, 0)
	if errno == unix.EINTR {
		n, errno = 0, 0
	}
	if n == 0 && errno == 0 {
		// Nothing is mapped at 0 but where somebody insists: a space that is there has
		// a byte or says EIO, one that has ended says that there is nothing.
		n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(p.space), uintptr(unsafe.Pointer(&p.peek[0])), 1, 0, 0, 0)
		p.gone = errno == 0 && n == 0
		return !p.gone
	}
	p.gone = true
	return false
}

// Load implements memory.Backing.
func (p *process) Load(dst []byte, addr uint64, n uint32) ([]byte, memory.Fault) {
	from := len(dst)
	dst = slices.Grow(dst, int(n))[:from+int(n)]
	if f := p.move(unix.SYS_PROCESS_VM_READV, addr, dst[from:]); f != memory.OK {
		return dst[:from], f
	}
	return dst, memory.OK
}

// Store implements memory.Backing.
func (p *process) Store(addr uint64, data []byte) memory.Fault {
	return p.move(unix.SYS_PROCESS_VM_WRITEV, addr, data)
}

// move copies all of b, which is not empty, from or to the process. One that ends has
// lost its memory (ESRCH) before it closes its end of the socket.
func (p *process) move(call uintptr, addr uint64, b []byte) memory.Fault {
	if !p.here() {
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

// mapped implements host.
func (p *process) mapped(addr, n uint64) bool {
	var b [1]byte
	return p.move(unix.SYS_PROCESS_VM_READV, addr, b[:]) == memory.OK && p.move(unix.SYS_PROCESS_VM_READV, addr+n-1, b[:]) == memory.OK
}

// forget implements host.
func (p *process) forget() { p.gone = true }

// close implements host.
func (p *process) close() {
	for _, fd := range [...]int{p.pidfd, p.space} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
