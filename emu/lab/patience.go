package lab

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// How long a client waits for a lab.
const (
	answerLimit  = 10 * time.Second       // for an answer
	stoppedLimit = time.Second            // while the lab's process is stopped
	stoppedLook  = 100 * time.Millisecond // between two checks for that
)

// NoAnswerError means that a lab's process exists and does not answer.
type NoAnswerError struct {
	Lab     string
	PID     int  // 0 if the process cannot be seen from here
	Stopped bool // by a signal, or by a debugger
	Waited  time.Duration
}

func (e *NoAnswerError) Error() string {
	if e.Stopped {
		return fmt.Sprintf("the lab's process %d does not answer: it is stopped (SIGSTOP, or Ctrl-Z in its terminal); kill -CONT %[1]d lets it go on", e.PID)
	}
	return fmt.Sprintf("the lab's process %d has not answered for %v: weft down %s ends it, by force if need be", e.PID, e.Waited, e.Lab)
}

// limitedRequest is the context of a request that the lab has not answered yet.
type limitedRequest struct {
	context.Context
	cancel  context.CancelCauseFunc
	settled chan struct{}
}

// awaitAnswer returns a context for a request that ends, with a NoAnswerError as its
// cause, when the lab should have answered. limited is false if the answer may
// take long; a stopped process of the lab ends the context all the same.
func (c *Client) awaitAnswer(ctx context.Context, limited bool) *limitedRequest {
	p := &limitedRequest{settled: make(chan struct{})}
	p.Context, p.cancel = context.WithCancelCause(ctx)
	go func() {
		look := time.NewTicker(stoppedLook)
		defer look.Stop()
		began := time.Now()
		running := began // when the process was last seen to run
		for {
			select {
			case <-p.settled:
				return
			case <-p.Done():
				return
			case <-look.C:
			}
			pid := int(c.pid.Load())
			if !IsStopped(pid) {
				running = time.Now()
			}
			switch {
			case time.Since(running) > stoppedLimit:
				p.cancel(&NoAnswerError{c.name, pid, true, stoppedLimit})
			case limited && time.Since(began) > c.limit:
				p.cancel(&NoAnswerError{c.name, pid, false, c.limit})
			}
		}
	}()
	return p
}

// endWait ends the wait but not the context, for a stream that has begun.
func (p *limitedRequest) endWait() { close(p.settled) }

// endRequest ends the wait and the context.
func (p *limitedRequest) endRequest() { p.cancel(nil) }

// dialSocket connects to the control socket and records the PID of its owner.
func (c *Client) dialSocket(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		conn.Close()
		return nil, err
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			c.pid.Store(peer.Pid)
		}
	})
	return conn, nil
}

// IsStopped reports whether a process is stopped by a signal or a debugger
// (proc_pid_stat(5)).
func IsStopped(pid int) bool {
	if pid <= 0 {
		return false
	}
	b, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	if err != nil {
		return false
	}
	// The name of the program, in parentheses, may contain parentheses and blanks.
	_, state, ok := bytes.Cut(b[max(bytes.LastIndexByte(b, ')'), 0):], []byte(" "))
	return ok && len(state) > 0 && (state[0] == 'T' || state[0] == 't')
}
