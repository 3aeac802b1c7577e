package wall

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/sim/units"
)

// priority keeps the engine's thread ahead of ordinary programs.
//
// SCHED_FIFO does this best, as long as the thread leaves time to others. A
// real-time thread that does not is stopped by the kernel for 50 ms in every
// second: by its bandwidth limit (sched_rt_runtime_us) and, since Linux 6.12,
// by the deadline server of the fair class (kernel/sched/deadline.c). Packets
// are then 50 ms late. So the thread steps back to the highest nice level while
// it is busy, where the kernel shares out microseconds instead.
type priority struct {
	wanted bool // real-time scheduling was requested and is permitted
	fifo   bool // the thread has it now

	since units.Time // start of the current period
	slept units.Time // sleep in the period
}

const (
	// period is how long the thread's load is observed before it counts: long
	// compared with a burst, short compared with the kernel's second.
	period = 100 * units.Millisecond
	// stepBack and stepUp are the loads, in percent, above and below which the
	// thread switches.
	stepBack, stepUp = 75, 50
)

// raisePriority requests SCHED_FIFO.
func (p *priority) raisePriority() error {
	if err := setFIFO(); err != nil {
		return fmt.Errorf("SCHED_FIFO: %w (grant CAP_SYS_NICE or an rtprio limit, or set engine: {realtime: off})", err)
	}
	p.wanted, p.fifo = true, true
	return nil
}

// adjustPriority is called once a turn, with the real time since the start and how long
// the thread slept in the previous turn.
func (p *priority) adjustPriority(now, slept units.Time) {
	if !p.wanted {
		return
	}
	p.slept += slept
	length := now - p.since
	if length < period {
		return
	}
	load := 100 - 100*p.slept/length
	p.since, p.slept = now, 0
	// Both calls succeeded before or need fewer privileges than one that did;
	// if one fails nevertheless, the thread stays as it is and tries again
	// later.
	switch {
	case p.fifo && load > stepBack:
		p.fifo = setNice() != nil
	case !p.fifo && load < stepUp:
		p.fifo = setFIFO() == nil
	}
}

// realtimePriority is the lowest one, which is above every ordinary program.
const realtimePriority = 1

// setFIFO gives the calling thread realtimePriority.
func setFIFO() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: realtimePriority}, 0)
}

// setNice gives the calling thread the highest share among ordinary programs.
func setNice() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: -20}, 0)
}
