package wall

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// TestThread: jobs are done in their order, however the thread falls asleep between them,
// and all of them before it ends.
func TestThread(t *testing.T) {
	for _, pause := range []time.Duration{0, 20 * time.Microsecond} {
		th, err := newThread()
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { th.run(false) })
		var done []int
		const jobs = 3000
		for i := range jobs {
			if i%7 == 0 && pause > 0 {
				time.Sleep(pause)
			}
			th.do(func() { done = append(done, i) })
		}
		th.close()
		running.Wait()
		if len(done) != jobs || !slices.IsSorted(done) {
			t.Errorf("with pauses of %v: %d jobs of %d, in order: %v", pause, len(done), jobs, slices.IsSorted(done))
		}
	}
}

// threaded is a device that may be written by a thread.
type threaded struct {
	fd     int
	wants  bool
	given  int // times
	thread func(job func())
	did    bool
}

func (d *threaded) FD() int                  { return d.fd }
func (d *threaded) Poll(units.Time, int) int { return 0 }
func (d *threaded) WantsThread() bool        { return d.wants }
func (d *threaded) WriteBy(t func(job func())) {
	if d.thread = t; t == nil {
		return
	}
	d.given++
	t(func() { d.did = true })
}

// TestThreads: devices that want a thread have one while the engine runs, up to as many as
// there are devices.
func TestThreads(t *testing.T) {
	for _, c := range []struct{ threads, given int }{{0, 0}, {1, 3}, {2, 3}, {5, 3}} {
		var e sim.Engine
		d := newDriver(t, &e, Options{Threads: c.threads})
		var devices []*threaded
		for i := range 4 {
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			p := &threaded{fd: fd, wants: i != 1}
			devices = append(devices, p)
			if err := d.Attach(p); err != nil {
				t.Fatal(err)
			}
		}
		run := make(chan error)
		go func() {
			run <- d.Run(context.Background(), NewClock(1), units.Millisecond, func() {
				for i, p := range devices {
					if has := p.thread != nil; has != (p.wants && c.threads > 0) {
						t.Errorf("%d threads: device %d has one: %v", c.threads, i, has)
					}
				}
			})
		}()
		if err := <-run; err != nil {
			t.Fatal(err)
		}
		given := 0
		for i, p := range devices {
			given += p.given
			if p.thread != nil || p.did != (p.given > 0) {
				t.Errorf("%d threads: device %d at the end: %+v", c.threads, i, p)
			}
		}
		if given != c.given {
			t.Errorf("%d threads were given to %d devices, want %d", c.threads, given, c.given)
		}
	}
}
