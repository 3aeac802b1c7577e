package wall

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// helpers keeps the threads of the Go runtime ahead of ordinary programs.
//
// Go preempts a goroutine that has used its thread for 10 ms, including the engine's
// (package runtime, retake). A goroutine that is locked to its thread then sleeps until
// another thread of the process schedules it again (stoplockedm). While programs that never
// sleep occupy all cores, that thread waits for a time slice, 4 ms and more, and so does
// the engine, whatever its own priority.
//
// So the other threads get the engine's real-time priority. They hardly use it: a thread
// that works for long, such as one that formats a capture, becomes ordinary again after a
// period, so that it does not take the cores from the hosts' programs. The priority must
// not be lower: the runtime spins, yielding, on what another thread holds for an instant
// (casgstatus), and on the core of a thread with higher priority that other thread never
// gets to release it.
type helpers struct {
	raised map[int]bool          // by thread
	worked map[int]time.Duration // processor time of a thread at the last look
	last   time.Time             // time of the last look
}

const (
	// lookPeriod is how often the threads are checked: new ones appear over time, and are
	// ordinary.
	lookPeriod = 250 * time.Millisecond
	// hardWork is the share of the time, in percent, above which a thread does more than
	// reschedule the engine.
	hardWork = 20
)

// KeepHelpersAhead gives the process's other threads the engine's real-time priority until
// ctx ends, and takes it away from those that work for long. Processes started meanwhile
// are ordinary. It is for processes in which a Driver has SCHED_FIFO; without permission it
// changes nothing. It also does nothing on a single core, where the engine would wait for
// them.
func KeepHelpersAhead(ctx context.Context) {
	if runtime.NumCPU() == 1 {
		return
	}
	h := newHelpers()
	defer h.lowerThreads()
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		h.classifyThreads(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func newHelpers() *helpers {
	return &helpers{raised: map[int]bool{}, worked: map[int]time.Duration{}}
}

// classifyThreads classifies all threads of the process by their work since the last look.
func (h *helpers) classifyThreads(now time.Time) {
	period := now.Sub(h.last)
	h.last = now
	before, raised := h.worked, h.raised
	h.worked, h.raised = map[int]time.Duration{}, map[int]bool{}
	for _, id := range threadIDs() {
		worked, ok := workOf(id)
		if !ok {
			continue // the thread has ended
		}
		h.worked[id] = worked
		was, known := before[id]
		hard := known && 100*(worked-was) > hardWork*period
		switch {
		case raised[id] && hard:
			h.raised[id] = setOrdinary(id) != nil
		case raised[id]:
			h.raised[id] = true
		case !hard && isOrdinary(id):
			h.raised[id] = setHelper(id) == nil
		}
	}
}

// lowerThreads makes all raised threads ordinary again.
func (h *helpers) lowerThreads() {
	for id, raised := range h.raised {
		if raised {
			_ = setOrdinary(id) // the thread may have ended
		}
	}
}

// threadIDs returns the threads of this process.
func threadIDs() (ids []int) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// workOf returns the processor time that a thread has used (proc(5), schedstat).
func workOf(id int) (time.Duration, bool) {
	b, err := os.ReadFile(filepath.Join("/proc/self/task", strconv.Itoa(id), "schedstat"))
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	return time.Duration(n), err == nil
}

// isOrdinary reports whether a thread has the default scheduling. Engines do not, even
// after they have stepped back.
func isOrdinary(id int) bool {
	a, err := unix.SchedGetAttr(id, 0)
	return err == nil && a.Policy == unix.SCHED_NORMAL && a.Nice == 0
}

func setHelper(id int) error {
	return unix.SchedSetAttr(id, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: realtimePriority, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
}

func setOrdinary(id int) error {
	return unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
}
