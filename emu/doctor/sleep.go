package doctor

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/sim/units"
)

// Names of measurements, for LeftOut.
const (
	sleepOrdinary  = "sleep, ordinary scheduling"
	wakeUpOfThread = "wake-up of a thread"
)

// sleepSpan is the sleep that is measured: as between two packets, not as on an
// idle machine.
const sleepSpan = 100 * units.Microsecond

// Sleep is how much longer than requested the engine's thread sleeps.
type Sleep struct {
	P50 units.Time `json:"p50"` // median of the rounds, like P99
	P99 units.Time `json:"p99"`
	Max units.Time `json:"max"` // of all rounds
}

func measureSleep(ctx context.Context, s wall.Scheduling, e effort) (*Sleep, error) {
	var p50, p99 []units.Time
	var maxSlept units.Time
	err := wall.OnThread(s, func() error {
		for range e.rounds {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			d, err := wall.MeasureOversleep(sleepSpan, e.sleeps)
			if err != nil {
				return err
			}
			p50, p99, maxSlept = append(p50, d.P50), append(p99, d.P99), max(maxSlept, d.Max)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Sleep{medianValue(p50), medianValue(p99), maxSlept}, nil
}

// wakeUp measures the time from a write to an eventfd until a thread that slept
// in a read of it continues, on another core if there is one: half of a round trip.
func wakeUp(ctx context.Context, e effort) (*units.Time, error) {
	var fds [2]int // to the other thread and back
	for i := range fds {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("eventfd: %w", err)
		}
		defer unix.Close(fd)
		fds[i] = fd
	}
	cores := twoCores()
	echo := make(chan error, 1)
	go func() {
		echo <- wall.OnThread(wall.Ordinary, func() error {
			pinThread(cores[1])
			for {
				n, err := readEvent(fds[0])
				if err != nil || n > 1 { // more than one means the end
					return err
				}
				if err := writeEvent(fds[1], 1); err != nil {
					return err
				}
			}
		})
	}()
	var all []units.Time
	err := wall.OnThread(wall.Ordinary, func() error {
		defer func() { _ = writeEvent(fds[0], 2) }()
		pinThread(cores[0])
		for range e.rounds {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			start := time.Now()
			for range e.pings {
				if err := writeEvent(fds[0], 1); err != nil {
					return err
				}
				if _, err := readEvent(fds[1]); err != nil {
					return err
				}
			}
			all = append(all, units.FromDuration(time.Since(start))/units.Time(2*e.pings))
		}
		return nil
	})
	if eerr := <-echo; err == nil {
		err = eerr
	}
	if err != nil {
		return nil, err
	}
	m := roundNanos(medianValue(all))
	return &m, nil
}

// writeEvent and receive are visible to Go's scheduler, as the engine's sleep is.
func writeEvent(fd int, n uint64) error {
	_, err := unix.Write(fd, binary.NativeEndian.AppendUint64(nil, n))
	return err
}

func readEvent(fd int) (uint64, error) {
	var b [8]byte
	for {
		if _, err := unix.Read(fd, b[:]); err != unix.EINTR {
			return binary.NativeEndian.Uint64(b[:]), err
		}
	}
}

// twoCores returns two of the cores that this process may use, twice the same
// if it may use only one.
func twoCores() (c [2]int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return c
	}
	n := 0
	for i := 0; n < min(2, set.Count()); i++ {
		if set.IsSet(i) {
			c[n] = i
			n++
		}
	}
	if n == 1 {
		c[1] = c[0]
	}
	return c
}

// pinThread pins the calling thread to a core. If that is refused, the scheduler
// chooses.
func pinThread(core int) {
	var set unix.CPUSet
	set.Set(core)
	_ = unix.SchedSetaffinity(0, &set)
}

// clockRead measures how long reading the clock takes.
func clockRead() units.Time {
	const n = 20_000
	clock := wall.NewClock(1)
	for range n {
		clock.Now()
	}
	return clock.Now() / n / 100 * 100 // to tenths of a nanosecond
}

// roundNanos rounds to whole nanoseconds.
func roundNanos(t units.Time) units.Time {
	return (t + units.Nanosecond/2) / units.Nanosecond * units.Nanosecond
}
