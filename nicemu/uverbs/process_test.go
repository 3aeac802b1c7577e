package uverbs

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/nicemu/memory"
)

// The memory of a process that has ended is gone, not unmapped.
func TestProcess_DeadHasItsMemoryGone(t *testing.T) {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	pidfd, err := unix.PidfdOpen(c.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := openProcess(c.Process.Pid, pidfd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.closeProcess()
	if f := p.StoreBytes(8, []byte{1}); f != memory.Unmapped {
		t.Errorf("memory that is not there: %v", f)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It is not waited for, so its number stays.
	await.True(t, "memory that is gone", func() bool { return p.StoreBytes(8, []byte{1}) == memory.Gone })
	if _, f := p.LoadBytes(nil, 8, 1); f != memory.Gone {
		t.Errorf("memory of a process that has ended: %v", f)
	}
}

// A process is found even while signals arrive, as Go's runtime sends them.
func TestProcess_IsFoundWhileSignalsArrive(t *testing.T) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Kill(os.Getpid(), unix.SIGURG)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for range 5000 {
		pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := openProcess(os.Getpid(), pidfd)
		if err != nil {
			t.Fatal(err)
		}
		p.closeProcess()
	}
}
