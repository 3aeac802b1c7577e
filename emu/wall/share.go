package wall

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedClock is a clock in a file that programs map into their memory to follow it
// (netns-lab/slowclock has the same in C). All fields are in native byte order.
type sharedClock struct {
	magic     uint64
	dilation  int64
	monotonic int64 // ns; CLOCK_MONOTONIC at emulated time zero
	realtime  int64 // ns; CLOCK_REALTIME at emulated time zero
	stood     atomic.Int64
}

// sharedMagic marks a file as a sharedClock, and its version.
const sharedMagic = 0x314b434f4c435457 // "WTCLOCK1", read as little-endian

// ShareFile lets programs follow the clock through a file, which is created anew. It
// must be called once, before a driver runs by the clock.
func (c *Clock) ShareFile(path string) error {
	const size = int(unsafe.Sizeof(sharedClock{}))
	f, err := os.CreateTemp(filepath.Dir(path), ".clock")
	if err != nil {
		return fmt.Errorf("clock for programs: %w", err)
	}
	defer f.Close()
	memory, err := mapFile(f, size)
	if err == nil {
		s := (*sharedClock)(unsafe.Pointer(&memory[0]))
		s.dilation, s.monotonic, s.realtime = c.dilation, c.monotonic, c.realtime
		s.stood.Store(c.stood.Load())
		s.magic = sharedMagic
		c.shared = s
		// Atomic: a program may be about to read it.
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("clock for programs: %w", err)
	}
	return nil
}

// mapFile maps a file of the given size into memory, for the lifetime of the process.
func mapFile(f *os.File, size int) ([]byte, error) {
	if err := f.Chmod(0o444); err != nil { // a program may have switched to another user
		return nil, err
	}
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
