package wall

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// presence detects when the engine's thread was absent: neither working, nor
// waiting for a core, nor asleep on purpose. Then its process was stopped, or
// the machine was. All times are of the wall clock.
type presence struct {
	since  units.Time // start of the current period
	worked units.Time // at since, including time spent waiting for a core
	ahead  units.Time // at since, of the clock that continues in a suspended machine
	slept  units.Time // in the period, as requested

	absent    units.Time // in total
	suspended units.Time // in total; the engine's own clock does not count it

	stat int // fd of the thread's schedstat, -1 if there is none
}

const (
	// maxSleep bounds a sleep, so that a longer one indicates an absence.
	maxSleep = units.Second
	// sleepSlack is how much longer than requested a sleep may be.
	sleepSlack = 10 * units.Millisecond
	// minAbsence is the shortest absence per period that counts: less is the
	// noise of many sleeps.
	minAbsence = 500 * units.Millisecond
)

// beginPeriod must be called on the engine's thread.
func (p *presence) beginPeriod(now units.Time) {
	var err error
	if p.stat, err = unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		p.stat = -1
	}
	p.since, p.worked, p.ahead = now, p.workTime(), suspendedClock()
}

func (p *presence) endPeriod() {
	if p.stat >= 0 {
		unix.Close(p.stat)
	}
}

// recordSleep records a sleep.
func (p *presence) recordSleep(took, asked units.Time) { p.slept += min(took, asked+sleepSlack) }

// nextPeriod ends a period and starts the next.
func (p *presence) nextPeriod(now units.Time) { p.judgeLoad(now, p.workTime(), suspendedClock()) }

func (p *presence) judgeLoad(now, worked, ahead units.Time) {
	if away := now - p.since - (worked - p.worked) - p.slept; away >= minAbsence {
		p.absent += away
	}
	if away := ahead - p.ahead; away >= minAbsence {
		p.suspended += away
	}
	p.since, p.worked, p.ahead, p.slept = now, worked, ahead, 0
}

// workTime returns how long the thread has run or waited for a core
// (Documentation/scheduler/sched-stats.rst). A kernel without these statistics
// reports only the former.
func (p *presence) workTime() units.Time {
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

// suspendedClock returns how long the machine has been suspended since boot
// (clock_gettime(2)): CLOCK_MONOTONIC, which the engine uses, does not count
// that.
func suspendedClock() units.Time {
	var all, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil {
		return 0
	}
	return units.Time(all.Nano()-awake.Nano()) * units.Nanosecond
}
