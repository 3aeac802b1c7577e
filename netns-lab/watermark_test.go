package netnslab

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// slowClass joins two devices as an emulator does: it reads the queues of the first
// promptly and forwards one of its classes no faster than rate, and not before its first
// hold. The class is held when its queue here is longer than high, and resumed below half
// of that.
type slowClass struct {
	ends  [2]*Device
	queue int
	rate  units.Rate
	high  int

	waiting [][]byte
	bytes   int
	full    atomic.Bool
	wake    chan struct{}

	maxQueue, holds atomic.Int64
}

func joinSlowly(t *testing.T, s *slowClass) {
	s.wake = make(chan struct{}, 1)
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { s.run(stop) })
	done.Go(func() { s.hold(t) })
	t.Cleanup(func() {
		close(stop)
		done.Wait()
	})
}

// hold is the thread that makes the slow calls.
func (s *slowClass) hold(t *testing.T) {
	held := false
	for range s.wake {
		full := s.full.Load()
		var err error
		switch {
		case full && !held:
			err = s.ends[0].HoldQueue(s.queue)
			s.holds.Add(1)
		case !full && held:
			err = s.ends[0].ResumeQueue(s.queue)
		}
		if err != nil {
			t.Error(err)
		}
		held = full
	}
}

func (s *slowClass) run(stop chan struct{}) {
	defer close(s.wake)
	runtime.LockOSThread()
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	buf := make([]byte, 1<<17)
	var poll []unix.PollFd
	for _, fd := range append(s.ends[0].FDs[:len(s.ends[0].FDs):len(s.ends[0].FDs)], s.ends[1].FD) {
		poll = append(poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	next := time.Now()
	for {
		select {
		case <-stop:
			return
		default:
		}
		_, _ = unix.Ppoll(poll, &unix.Timespec{Nsec: 200_000}, nil)
		for i, p := range poll {
			for p.Revents&unix.POLLIN != 0 {
				n, err := unix.Read(int(p.Fd), buf)
				if err != nil {
					break
				}
				switch {
				case bytes.HasSuffix(buf[:n], Kick):
				case i == len(poll)-1:
					_, _ = unix.Write(s.ends[0].FD, buf[:n])
				case i == s.queue:
					s.waiting = append(s.waiting, bytes.Clone(buf[:n]))
					s.bytes += n
					s.maxQueue.Store(max(s.maxQueue.Load(), int64(s.bytes)))
				default:
					_, _ = unix.Write(s.ends[1].FD, buf[:n])
				}
			}
		}
		now := time.Now()
		for len(s.waiting) > 0 && !next.After(now) && s.holds.Load() > 0 {
			f := s.waiting[0]
			s.waiting, s.bytes = s.waiting[1:], s.bytes-len(f)
			_, _ = unix.Write(s.ends[1].FD, f)
			next = next.Add(time.Duration(s.rate.TimeOf(units.Bytes(len(f))) / units.Nanosecond))
		}
		if len(s.waiting) == 0 && next.Before(now) {
			next = now
		}
		if full := s.full.Load(); !full && s.bytes > s.high || full && s.bytes < s.high/2 {
			s.full.Store(!full)
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
}

// A class that the fabric carries more slowly than its link loses nothing, whatever
// sends it, and neither does another class beside it.
func TestHold_LosesNothingOfASlowClass(t *testing.T) {
	needSteering(t)
	t.Parallel()
	h1, h2 := hostN(1, TAP, units.Gbps), hostN(2, TAP, 0)
	h1.Interfaces[0].Classes = threeClasses()
	h1.Interfaces[0].Offload, h2.Interfaces[0].Offload = true, true
	l := makeLab(t, h1, h2)
	knowEachOther(t, l)
	s := &slowClass{ends: [2]*Device(l.Devices()), queue: 1, rate: 50 * units.Mbps, high: 256_000}
	joinSlowly(t, s)
	const n = 2000
	datagrams, _ := number(t, l, 26, 7001, n, 1000)
	tcp := transfer(t, l, 26, 5_000_000)
	free := transfer(t, l, 46, 25_000_000)
	free.checked.Wait()
	tcp.checked.Wait()
	datagrams.waitAll(t, "datagrams of a slow class", n)
	checkNothingDropped(t, l.Devices()[0])
	t.Logf("held %d times; at most %d bytes waited", s.holds.Load(), s.maxQueue.Load())
}
