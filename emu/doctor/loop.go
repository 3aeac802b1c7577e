package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop forwards frames between two TAPs and counts those from the first.
type loop struct {
	ctx     context.Context
	effort  effort
	fds     [2]int
	room    int // bytes of the largest frame
	offload bool

	flowing atomic.Bool // there is traffic: count from now on
	started bool        // run has begun
	samples []sample
}

const (
	frameSlack = 14 + 2*4 // Ethernet header and two VLAN tags
	superFrame = 1 << 16  // super-packets are shorter by a header

	// loopBatch is how many frames are read from one device before the other
	// gets its turn, as in the engine.
	loopBatch = 32
	// loopWait is how long the loop sleeps without looking at ctx.
	loopWait = 10 // ms
	// minFrames is how many frames a round has at least.
	minFrames = 100
)

// runRounds forwards frames until the rounds are over or ctx ends. A round takes until it has lasted
// long enough and has enough frames.
func (l *loop) runRounds() error {
	l.started = true
	room := l.room
	if l.offload {
		room = superFrame + frameSlack + virtioHeader
	}
	buf := make([]byte, room)
	poll := []unix.PollFd{{Fd: int32(l.fds[0]), Events: unix.POLLIN}, {Fd: int32(l.fds[1]), Events: unix.POLLIN}}
	var now sample // since the round began
	var began time.Time
	var cpu time.Duration
	begin := func() { now, began, cpu = sample{}, time.Now(), threadTime() }
	warm := false
	for l.ctx.Err() == nil {
		if _, err := unix.Poll(poll, loopWait); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for i := range poll {
			for n := 0; n < loopBatch && poll[i].Revents != 0; n++ {
				size := readFrame(l.fds[i], buf)
				if size == 0 {
					break
				}
				if writeFrame(l.fds[1-i], buf[:size]) && i == 0 {
					now.frames++
					now.bytes += size
				}
			}
		}
		switch {
		case began.IsZero():
			if l.flowing.Load() {
				begin()
			}
		case !warm && time.Since(began) >= l.effort.warm:
			warm = true
			begin()
		case warm && time.Since(began) >= l.effort.traffic && now.frames >= minFrames:
			now.wall, now.cpu = time.Since(began), threadTime()-cpu
			if l.offload {
				now.bytes -= now.frames * virtioHeader
			}
			if l.samples = append(l.samples, now); len(l.samples) == l.effort.rounds {
				return nil
			}
			begin()
		}
	}
	if errors.Is(context.Cause(l.ctx), context.DeadlineExceeded) {
		return fmt.Errorf("too few packets came through: %d of %d rounds were complete (run weft doctor again when the machine is idle)", len(l.samples), l.effort.rounds)
	}
	return context.Cause(l.ctx)
}

// readFrame and write do not block, so they need not tell Go's scheduler, as in the
// engine (links/device/tuntap).
func readFrame(fd int, b []byte) int {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0
	}
	return int(n)
}

func writeFrame(fd int, b []byte) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return errno == 0
}

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail
	return time.Duration(t.Nano())
}
