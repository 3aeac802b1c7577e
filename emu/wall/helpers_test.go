package wall

import (
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
)

// The threads of the process get a real-time priority, except for one that works all the
// time, one with its own scheduling, and a child. At the end all are as before.
func TestHelpers_ArePreferredUnlessTheyWorkHard(t *testing.T) {
	var over atomic.Bool
	sleepers := make(chan struct{})
	thread := func(body func()) (id int) {
		started := make(chan int)
		end := make(chan struct{})
		go func() {
			defer close(end)
			runtime.LockOSThread() // and never unlocked
			started <- unix.Gettid()
			body()
		}()
		t.Cleanup(func() { <-end })
		return <-started
	}
	idle := thread(func() { <-sleepers })
	busy := thread(func() {
		for !over.Load() {
		}
	})
	nice := make(chan error, 1)
	own := thread(func() {
		nice <- setNice()
		<-sleepers
	})
	t.Cleanup(func() { over.Store(true); close(sleepers) })
	if err := <-nice; err != nil {
		t.Skipf("SKIPPED: scheduling: %v", err)
	}
	h := newHelpers()
	defer h.lowerThreads()
	h.classifyThreads(time.Now())
	if !h.raised[idle] {
		t.Skip("SKIPPED: real-time scheduling is not allowed")
	}
	expect := func(when, who string, id int, policy uint32, nice int32) {
		t.Helper()
		a, err := unix.SchedGetAttr(id, 0)
		if err != nil || a.Policy != policy || a.Nice != nice {
			t.Errorf("%s: the %s thread has %+v, %v; want policy %d, nice %d", when, who, a, err, policy, nice)
		}
	}
	expect("at first", "idle", idle, unix.SCHED_RR, 0)
	expect("at first", "busy", busy, unix.SCHED_RR, 0) // not known yet
	expect("at first", "nice", own, unix.SCHED_NORMAL, -20)

	// A look counts the work since the one before, over any period, so on a busy machine this
	// only takes longer.
	await.True(t, "the work of a thread that never sleeps", func() bool {
		h.classifyThreads(time.Now())
		return !h.raised[busy]
	})
	expect("when it has worked", "busy", busy, unix.SCHED_NORMAL, 0)
	expect("when another has worked", "idle", idle, unix.SCHED_RR, 0)

	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	expect("as a child", "main", c.Process.Pid, unix.SCHED_NORMAL, 0)
	_ = c.Process.Kill()
	_ = c.Wait()

	h.lowerThreads()
	expect("in the end", "idle", idle, unix.SCHED_NORMAL, 0)
	expect("in the end", "nice", own, unix.SCHED_NORMAL, -20)
	for _, id := range threadIDs() {
		if a, err := unix.SchedGetAttr(id, 0); err == nil && a.Policy == unix.SCHED_RR {
			t.Errorf("in the end thread %d still has SCHED_RR", id)
		}
	}
}
