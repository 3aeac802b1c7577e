package netnslab

import (
	"os/exec"
	"syscall"
)

// Start starts a program in a host's network namespace. The program lives no longer
// than the lab's owner: it is killed when the owner dies, and by Close and SweepLab
// like all processes in a host. It keeps the owner's file system. ended receives the
// result of Wait.
func (l *Lab) Start(host string, c *exec.Cmd) (ended <-chan error, err error) {
	h, ok := l.info.Host(host)
	if !ok {
		return nil, noHost(l.info, host)
	}
	started, end := make(chan error), make(chan error, 1)
	go notMainThread(func() {
		// A separate thread, in the namespace until the program ends: the signal
		// comes when the thread that started it has ended (prctl(2),
		// PR_SET_PDEATHSIG).
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
	})
	return end, <-started
}
