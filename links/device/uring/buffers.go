package uring

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Buffers is a ring of buffers that multishot reads fill in order.
type Buffers struct {
	group uint16
	mem   []byte
	ring  []bufferEntry
	tail  uint16
}

// NewBuffers makes an empty ring of n buffers, a power of two. Each has a unique group number.
func (r *Ring) NewBuffers(group uint16, n int) (b *Buffers, err error) {
	b = &Buffers{group: group}
	// The kernel wants whole pages.
	if b.mem, err = unix.Mmap(-1, 0, n*int(unsafe.Sizeof(bufferEntry{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return nil, fmt.Errorf("register buffers with an io_uring: %w", err)
	}
	b.ring = unsafe.Slice((*bufferEntry)(unsafe.Pointer(&b.mem[0])), n)
	request := struct {
		address      uint64
		entries      uint32
		group, flags uint16
		_            [3]uint64
	}{address: uint64(uintptr(unsafe.Pointer(&b.mem[0]))), entries: uint32(n), group: group}
	if err := r.registerResource(registerBufferRing, unsafe.Pointer(&request), 1); err != nil {
		b.Close()
		return nil, fmt.Errorf("register buffers with an io_uring: %w", err)
	}
	return b, nil
}

// PutBuffer adds memory to read into under a number. The kernel owns it from PublishBuffers on,
// and the caller keeps it alive.
func (b *Buffers) PutBuffer(number uint16, mem []byte) {
	e := &b.ring[int(b.tail)&(len(b.ring)-1)]
	// Not the whole entry: the first holds the tail.
	e.address, e.length, e.id = uint64(uintptr(unsafe.Pointer(&mem[0]))), uint32(len(mem)), number
	b.tail++
}

// ReplaceBuffer replaces the memory of a buffer that has not been read into.
func (b *Buffers) ReplaceBuffer(number uint16, mem []byte) {
	for i := range b.ring {
		if e := &b.ring[i]; e.id == number {
			e.address, e.length = uint64(uintptr(unsafe.Pointer(&mem[0]))), uint32(len(mem))
		}
	}
}

// PublishBuffers makes the buffers that were PutBuffer visible to the kernel.
func (b *Buffers) PublishBuffers() {
	// The tail shares its word with the number of the first buffer, which the kernel
	// only reads. Go has no atomic store of 16 bits.
	first := &b.ring[0]
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&first.id)), joinHalves(first.id, b.tail))
}

// Close frees the buffers. Call it after closing the Ring they belong to.
func (b *Buffers) Close() { _ = unix.Munmap(b.mem) }

// joinHalves combines two halves into a word in native byte order.
func joinHalves(low, high uint16) uint32 {
	h := [2]uint16{low, high}
	return *(*uint32)(unsafe.Pointer(&h))
}
