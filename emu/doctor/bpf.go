package doctor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// loadBPF loads the shortest possible program, "r0 = 0; exit", and unloads it.
// See bpf(2); the attributes are union bpf_attr of linux/bpf.h, for
// BPF_PROG_LOAD.
func loadBPF() error {
	program := [...]uint64{0xb7, 0x95} // BPF_ALU64|BPF_MOV|BPF_K, BPF_JMP|BPF_EXIT
	license := []byte("GPL\x00")
	attr := struct {
		kind, count    uint32
		insns, license uint64
		logLevel, size uint32
		log            uint64
		version, flags uint32
	}{
		kind: unix.BPF_PROG_TYPE_SOCKET_FILTER, count: uint32(len(program)),
		insns:   uint64(uintptr(unsafe.Pointer(&program[0]))),
		license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}
