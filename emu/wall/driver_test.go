package wall

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// These tests need the wall clock, because the driver connects the engine to
// it. None of them depends on the speed of the machine.

func newDriver(t *testing.T, e *sim.Engine, o Options) *Driver {
	t.Helper()
	d, err := NewDriver(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// running starts a driver that runs e until cancel, and reports its error in ended.
func running(t *testing.T, e *sim.Engine) (d *Driver, cancel func(), ended <-chan error) {
	t.Helper()
	d = newDriver(t, e, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	started, end := make(chan struct{}), make(chan error, 1)
	go func() { end <- d.Run(ctx, NewClock(1), units.Never, func() { close(started) }) }()
	<-started
	return d, cancel, end
}

type ticker struct {
	timer sim.Timer
	step  units.Time
	times []units.Time
}

func (k *ticker) Fire(now units.Time) {
	k.times = append(k.times, now)
	k.timer.Arm(now + k.step)
}

// However late the thread is, an event sees its own time, so that lateness does not
// accumulate, and none fires early.
func TestEvents_KeepEmulatedTime(t *testing.T) {
	t.Parallel()
	for _, spin := range []units.Time{0, 100 * units.Microsecond} {
		var e sim.Engine
		k := &ticker{step: 3 * units.Millisecond}
		k.timer = e.NewTimer(k)
		k.timer.Arm(0)
		d := newDriver(t, &e, Options{Spin: spin})
		start := time.Now()
		if err := d.Run(context.Background(), NewClock(1), 30*units.Millisecond, func() {}); err != nil {
			t.Fatal(err)
		}
		if real := time.Since(start); real < 30*time.Millisecond {
			t.Errorf("30 ms of emulated time took %v", real)
		}
		if len(k.times) != 11 {
			t.Fatalf("fired %d times, want 11: at 0, 3, ... 30 ms", len(k.times))
		}
		for i, at := range k.times {
			if at != units.Time(i)*k.step {
				t.Errorf("event %d fired at %v, want %v", i, at, units.Time(i)*k.step)
			}
		}
		if e.Now() != 30*units.Millisecond {
			t.Errorf("the run ended at %v, want 30ms", e.Now())
		}
	}
}

// Work from outside runs on the engine's thread with its time advanced to the
// present, and is refused when the run is over.
func TestDo_RunsAtThePresent(t *testing.T) {
	t.Parallel()
	var e sim.Engine
	d, cancel, ended := running(t, &e)
	// The work is done in a turn that may have begun just before Do was called, but not before
	// the previous call had been answered.
	var previous, present, last units.Time
	for range 100 {
		previous, present = present, d.clock.Now()
		var now units.Time
		if err := d.Do(func() { now = e.Now() }); err != nil {
			t.Fatal(err)
		}
		if now < last || now < previous || now > d.clock.Now() {
			t.Fatalf("the engine's time went from %v to %v, at %v by the clock", last, now, present)
		}
		last = now
	}
	cancel() // interrupts a sleep that would last forever
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := d.Do(func() { t.Error("ran after the end") }); !errors.Is(err, ErrStopped) {
		t.Errorf("Do after the end: %v", err)
	}
}

// wire is a device made of a socket.
type wire struct {
	fd  int
	got func(now units.Time, n int)
}

func (w *wire) FD() int { return w.fd }

func (w *wire) PollInput(now units.Time, max int) int {
	for i := range max {
		var b [64]byte
		n, err := unix.Read(w.fd, b[:])
		if err != nil {
			return i
		}
		w.got(now, n)
	}
	return max
}

func (w *wire) Deliver(units.Time, *packet.Packet) bool { return true }

// newWire makes a wire and its far end, whose writes wait for room.
func newWire(t *testing.T) (w wire, far int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	return wire{fd: pair[0]}, pair[1]
}

// A device's input is read, at a time not before anything that has happened, and the
// lateness of deliveries is counted.
func TestDevices_WakeTheEngine(t *testing.T) {
	t.Parallel()
	w, far := newWire(t)
	var e sim.Engine
	k := &ticker{step: 100 * units.Microsecond}
	k.timer = e.NewTimer(k)
	k.timer.Arm(0)
	d := newDriver(t, &e, Options{Limit: units.Millisecond})
	total := 0
	all := make(chan struct{})
	w.got = func(now units.Time, _ int) {
		if last := k.times[len(k.times)-1]; now < last {
			t.Errorf("a packet arrived at %v, after an event at %v", now, last)
		}
		d.RecordDelivery(now-5*units.Millisecond, 1) // five milliseconds late
		if total++; total == 100 {
			close(all)
		}
	}
	if err := d.AttachDevice(&w); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, NewClock(1), units.Never, func() {}) }()
	for range 100 {
		if _, err := unix.Write(far, []byte("frame")); err != nil {
			t.Fatal(err)
		}
	}
	await.Receive(t, "the last frame", all)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s := SummarizeLateness(d)
	if s.Count != 100 || s.Beyond != 100 || s.Share != 1 || s.P50 < 5*units.Millisecond || s.Max < s.P99 || s.P99 < s.P50 {
		t.Errorf("lateness %+v, want 100 deliveries all beyond 1ms and at least 5ms late", s)
	}
}

func TestLateness_KeepsItsRange(t *testing.T) {
	l := newLateness(units.Millisecond)
	l.recordDelivery(-units.Second, 1) // cannot happen; counts as on time
	l.recordDelivery(units.Millisecond, 1)
	l.recordDelivery(units.Millisecond+units.Nanosecond, 5)
	l.recordDelivery(units.Hour, 1)
	if s := l.summarize(); s.Count != 8 || s.Beyond != 6 || s.Share != 0.75 || s.Max < 9*units.Second {
		t.Errorf("%+v", s)
	}
}

// The refusal of SCHED_FIFO is an error only if it was required. If the process is
// permitted to use it, both runs succeed.
func TestRealtime_IsAnErrorOnlyIfRequiredAndRefused(t *testing.T) {
	var e sim.Engine
	d := newDriver(t, &e, Options{Realtime: true})
	if err := d.Run(context.Background(), NewClock(1), units.Microsecond, func() {}); err != nil {
		t.Errorf("realtime where allowed: %v", err)
	}
	var e2 sim.Engine
	d2 := newDriver(t, &e2, Options{Realtime: true, Require: true})
	if err := d2.Run(context.Background(), NewClock(1), units.Microsecond, func() {}); (err == nil) != d2.IsRealtime() {
		t.Errorf("required: error %v, but real-time is %v", err, d2.IsRealtime())
	}
}
