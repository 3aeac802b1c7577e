package wall

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// presence tells when the engine's thread was not there: neither at work, nor
// waiting for a core, nor asleep because it wanted to be. Its process was
// stopped then, or the machine was. All times are of the wall clock.
type presence struct {
	since  units.Time // begin of the period that is looked at
	worked units.Time // by then, time waiting for a core included
	ahead  units.Time // by then, of the clock that goes on in a suspended machine
	slept  units.Time // in the period, as asked for

	absent    units.Time // in all
	suspended units.Time // in all; the engine's own clock does not count it

	stat int // fd of the thread's schedstat, -1 if there is none
}

const (
	// maxSleep bounds a sleep, so that a longer one tells of an absence.
	maxSleep = units.Second
	// sleepSlack is by how much a sleep may be longer than was asked for.
	sleepSlack = 10 * units.Millisecond
	// leastAbsence is the shortest absence of a period that counts: what is
	// shorter is the noise of many sleeps.
	leastAbsence = 500 * units.Millisecond
)

// begin is called on the engine's thread.
func (p *presence) begin(now units.Time) {
	var err error
	if p.stat, err = unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		p.stat = -1
	}
	p.since, p.worked, p.ahead = now, p.work(), suspendedClock()
}

func (p *presence) end() {
	if p.stat >= 0 {
		unix.Close(p.stat)
	}
}

// sleep notes a sleep.
func (p *presence) sleep(took, asked units.Time) { p.slept += min(took, asked+sleepSlack) }

// look ends a period and begins the next.
func (p *presence) look(now units.Time) { p.judge(now, p.work(), suspendedClock()) }

func (p *presence) judge(now, worked, ahead units.Time) {
	if away := now - p.since - (worked - p.worked) - p.slept; away >= leastAbsence {
		p.absent += away
	}
	if away := ahead - p.ahead; away >= leastAbsence {
		p.suspended += away
	}
	p.since, p.worked, p.ahead, p.slept = now, worked, ahead, 0
}

// work is how long the thread has run or waited for a core
// (Documentation/scheduler/sched-stats.rst). A kernel without these statistics
// tells only of the first.
func (p *presence) work() units.Time {
	var b [96]byte
	if n, err := unix.Pread(p.stat, b[:], 0); err == nil {
		var ran, waited int64
		if k, _ := fmt.Sscan(string(b[:n]), &ran, &waited); k == 2 {
			return units.Time(ran+waited) * units.Nanosecond
		}
	}
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return units.Time(u.Utime.Nano()+u.Stime.Nano()) * units.Nanosecond
}

// suspendedClock is for how long the machine has been suspended since it was
// started (clock_gettime(2)): CLOCK_MONOTONIC, which the engine goes by, does
// not count that.
func suspendedClock() units.Time {
	var all, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil {
		return 0
	}
	return units.Time(all.Nano()-awake.Nano()) * units.Nanosecond
}
