package uverbs

import (
	"slices"
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
}

// process is the memory of the process behind a session. It implements
// memory.Backing. Its methods are called on the engine's thread.
type process struct {
	pid    int
	socket int // of the session: its other end is closed when the process ends or becomes another program
	gone   bool

	// Of the call under way: here, so that it does not allocate.
	local  unix.Iovec
	remote struct{ base, len uint64 }
	peek   [1]byte
}

// here tells whether the process is still the one that has registered memory. It
// closes its end of the socket before its number can be another's; the moment
// between its becoming another program and the closing of that end cannot be seen.
func (p *process) here() bool {
	if p.gone {
		return false
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(p.socket), uintptr(unsafe.Pointer(&p.peek[0])), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	p.gone = errno == 0 && n == 0 || errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR
	return !p.gone
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

// move copies all of b from or to the process. One that ends has lost its memory
// (ESRCH) before it closes its end of the socket.
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
