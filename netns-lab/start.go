package netnslab

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a program in a host's network namespace, for as long as the lab's
// owner lives at most: it is killed when the owner dies, and by Close and Sweep as
// all that runs in a host is. The file system stays the owner's. ended gets what
// Wait says of it.
func (l *Lab) Start(host string, c *exec.Cmd) (ended <-chan error, err error) {
	h, ok := l.info.Host(host)
	if !ok {
		return nil, fmt.Errorf("lab %s has no host %s", l.info.Name, host)
	}
	started, end := make(chan error), make(chan error, 1)
	go func() {
		// A thread of its own, in the namespace until the program's end: the
		// signal comes when the thread that started it has ended (prctl(2),
		// PR_SET_PDEATHSIG). It is not unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		err := joinNamespace(h.Namespace)
		if err == nil {
			if c.SysProcAttr == nil {
				c.SysProcAttr = &syscall.SysProcAttr{}
			}
			c.SysProcAttr.Pdeathsig = syscall.SIGKILL
			err = c.Start()
		}
		started <- err
		if err == nil {
			end <- c.Wait()
		}
	}()
	return end, <-started
}
