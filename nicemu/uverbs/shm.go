package uverbs

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shm is memory shared with a process. Its contents are not to be trusted, and may change at any
// time.
type shm struct{ bytes []byte }

// newSHM makes memory of a fixed size: a mapping that became longer than its file would end the lab
// with SIGBUS. The descriptor is for the process.
func newSHM(name string, size int) (m shm, fd int, err error) {
	fd, err = unix.MemfdCreate("weft-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return m, -1, fmt.Errorf("memory for a %s: %w", name, err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		m.bytes, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		unix.Close(fd)
		return shm{}, -1, fmt.Errorf("%d bytes of memory for a %s: %w", size, name, err)
	}
	return m, fd, nil
}

func (m *shm) closeMemory() {
	if m.bytes != nil {
		_ = unix.Munmap(m.bytes)
		m.bytes = nil
	}
}

// wordAt and double return words at offsets that are multiples of their size, in the first pages,
// which every shm has.
func (m *shm) wordAt(offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&m.bytes[offset]))
}

func (m *shm) doubleAt(offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&m.bytes[offset]))
}

// ringSlots returns the number of slots in a ring for n entries: a power of two.
func ringSlots(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

// slotStride returns the length of a slot: whole cache lines.
func slotStride(n int) int { return (n + 63) &^ 63 }
