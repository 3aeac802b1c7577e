package wall

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Real time is converted to emulated time and back.
func TestClock_MapsRealToEmulatedTime(t *testing.T) {
	for _, c := range []struct {
		dilation int
		real     time.Duration
		emulated units.Time
	}{
		{1, time.Second, units.Second},
		{100, 100 * time.Second, units.Second},
		{100, time.Nanosecond, 10 * units.Picosecond},
		{3, 10 * time.Nanosecond, 3333},
		{1_000_000, time.Hour, 3600 * units.Microsecond},
		{1000, 365 * 24 * time.Hour, 31536 * units.Second}, // more picoseconds than 64 bits hold
		{7, 0, 0},
	} {
		clock := NewClock(c.dilation)
		if got := clock.ToEmulated(c.real); got != c.emulated {
			t.Errorf("dilation %d: %v is %v of emulated time, want %v", c.dilation, c.real, got, c.emulated)
		}
		// Real is never too short, and less than a nanosecond too long.
		if back := clock.ToReal(c.emulated); back > c.real || c.real-back > time.Duration(c.dilation)/1000+1 {
			t.Errorf("dilation %d: %v takes %v, want %v", c.dilation, c.emulated, back, c.real)
		}
	}
	for _, c := range []struct {
		dilation int
		emulated units.Time
		want     time.Duration
	}{
		{1, 1, 1}, {100, 5, 1}, {100, 10, 1}, {100, 11, 2}, {100, units.Millisecond, 100 * time.Millisecond},
		{1, units.Never, time.Duration(math.MaxInt64 / 1000)}, {1_000_000, units.Never, math.MaxInt64},
		{1000, 100_000 * units.Second, 1e8 * time.Second},
	} {
		if got := NewClock(c.dilation).ToReal(c.emulated); got != c.want {
			t.Errorf("dilation %d: %v takes %v, want %v", c.dilation, c.emulated, got, c.want)
		}
	}
}

// Programs find the clock in the file, and how long it stood still.
func TestSharedClock_TellsStartAndStandstill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clock")
	monotonic, realtime := readClock(unix.CLOCK_MONOTONIC), readClock(unix.CLOCK_REALTIME)
	c := NewClock(100)
	if err := c.ShareFile(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) != 40 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	c.standStill(3 * units.Second)
	if b, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	s := (*sharedClock)(unsafe.Pointer(&b[0]))
	if s.magic != sharedMagic || s.dilation != 100 || s.stood.Load() != int64(3*units.Second) {
		t.Errorf("%+v", s)
	}
	if now := readClock(unix.CLOCK_MONOTONIC); s.monotonic < monotonic || s.monotonic > now {
		t.Errorf("started at %d, which is not between %d and %d", s.monotonic, monotonic, now)
	}
	if now := readClock(unix.CLOCK_REALTIME); s.realtime < realtime || s.realtime > now {
		t.Errorf("started at %d since 1970, which is not between %d and %d", s.realtime, realtime, now)
	}
	if err := NewClock(2).ShareFile(filepath.Join(path, "none")); err == nil {
		t.Error("a clock in a directory that is none")
	}
}

// ticks counts its events, which are a fixed time apart. They are on a thread of which the kernel
// says when it has been asleep.
type ticks struct {
	every  units.Time
	n      int
	timer  sim.Timer
	thread presence
	asleep units.Time // up to the last event; real
	clock  *Clock
}

func (k *ticks) Fire(now units.Time) {
	k.n++
	k.timer.Arm(now + k.every)
	k.asleep = k.clock.realElapsed() - k.thread.since - (k.thread.workTime() - k.thread.worked)
}

// A driver with a dilation of 50 takes 50 times as long, does the same work as without, and
// says in emulated time how long it was idle. It tests real time.
func TestDilatedDriver_SleepsInRealTime(t *testing.T) {
	t.Parallel()
	const dilation = 50
	e := &sim.Engine{}
	began := time.Now()
	clock := NewClock(dilation)
	k := &ticks{every: 100 * units.Microsecond, clock: clock}
	k.timer = e.NewTimer(k)
	k.timer.Arm(k.every)
	d := newDriver(t, e, Options{Limit: units.Millisecond})
	if err := d.Run(t.Context(), clock, 4*units.Millisecond, func() { k.thread.beginPeriod(clock.realElapsed()) }); err != nil {
		t.Fatal(err)
	}
	k.thread.endPeriod()
	if took := time.Since(began); took < 4*dilation*time.Millisecond {
		t.Errorf("4 ms at dilation %d took %v", dilation, took)
	}
	if k.n != 40 {
		t.Errorf("%d ticks, want 40", k.n)
	}
	if k.thread.stat < 0 {
		t.Skip("NOT TESTED: this kernel does not tell how long a thread has waited for a core")
	}
	// The thread also sleeps when Go's runtime stops it, which is rare and short.
	idle := d.Load().Idle
	if minIdle := clock.ToEmulated(k.asleep.Duration()) / 2; idle < minIdle || idle > d.Load().wallTime() {
		t.Errorf("idle for %v of %v, asleep for %v of real time", idle, d.Load().wallTime(), k.asleep)
	}
}

// Lateness, stored in real time, is reported in emulated time.
func TestDilatedLateness_IsReportedInEmulatedTime(t *testing.T) {
	l := newLateness(10 * units.Microsecond)
	l.dilation = 100
	l.recordDelivery(5*units.Microsecond, 99)
	l.recordDelivery(20*units.Microsecond, 1)
	s := l.summarize()
	near := func(got, want units.Time) bool { return got > want*99/100 && got < want*101/100 }
	if s.Beyond != 1 || !near(s.P50, 5*units.Microsecond) || !near(s.Max, 20*units.Microsecond) {
		t.Errorf("%+v", s)
	}
	// 50 ps are 5 ns of real time.
	l = newLateness(units.Never)
	l.dilation = 100
	l.recordDelivery(50, 1)
	if s := l.summarize(); s.P50 != 50 {
		t.Errorf("%+v", s)
	}
	// Values out of range count as the maximum, 10 s of real time.
	l.recordDelivery(units.Never, 1)
	if s := l.summarize(); !near(s.Max, units.Second/10) {
		t.Errorf("%+v", s)
	}
}
