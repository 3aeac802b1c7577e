package nicemu

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Wait polls the queue until there is an entry, for up to timeout; units.Never means no limit.
// Processes wait this way: nothing has to be armed, and no event has to be acknowledged. ETIMEDOUT:
// no entry came; other errors are those of Poll.
func (c *CQ) Wait(p *sim.Process, dst []Completion, timeout units.Time) (int, error) {
	end := deadlineAfter(p, timeout)
	for {
		if n, err := c.Poll(dst); n > 0 || err != nil {
			return n, err
		}
		if !c.came.Wait(p, end-p.Now()) {
			return 0, fmt.Errorf("%w: no completion within %v", syscall.ETIMEDOUT, timeout)
		}
	}
}

// WaitOne waits for an entry without limit and takes it. The error is that of Poll, or of the entry
// (Completion.Err), which is returned with it.
func (c *CQ) WaitOne(p *sim.Process) (Completion, error) {
	var one [1]Completion
	if _, err := c.Wait(p, one[:], units.Never); err != nil {
		return Completion{}, err
	}
	return one[0], one[0].Err()
}

// deadlineAfter returns the time when a timeout ends.
func deadlineAfter(p *sim.Process, timeout units.Time) units.Time {
	if timeout >= units.Never-p.Now() {
		return units.Never
	}
	return p.Now() + timeout
}

// ConnError says why there is no connection, or no longer one.
type ConnError struct{ Event ConnEvent }

// Error describes the end of the connection.
func (e *ConnError) Error() string {
	text := fmt.Sprintf("the connection to %v was %v", e.Event.Conn.remote, e.Event.Kind)
	switch {
	case e.Event.Kind == ConnUnreachable:
		text = fmt.Sprintf("%v is unreachable: no answer came", e.Event.Conn.remote)
	case e.Event.Kind == ConnFailed:
		text = fmt.Sprintf("the connection to %v failed: %v", e.Event.Conn.remote, e.Event.Err)
	case e.Event.Reason != 0:
		text += fmt.Sprintf(" (%v)", e.Event.Reason)
	}
	return text
}

// Unwrap returns the corresponding errno of rdma_cm.
func (e *ConnError) Unwrap() error {
	switch e.Event.Kind {
	case ConnRejected:
		return syscall.ECONNREFUSED
	case ConnUnreachable:
		return syscall.ETIMEDOUT
	case ConnFailed:
		return e.Event.Err
	}
	return syscall.ECONNRESET
}

// WaitEstablished waits until the connection is established. On the active side it returns the private
// data of the peer's Accept, 196 bytes, zero-padded. An error is a *ConnError: ECONNREFUSED,
// ETIMEDOUT without an answer, which takes more than a minute (ConnUnreachable), ECONNRESET when it
// is over already, and the error that keeps the queue pair from RTS; or net.ErrClosed after Close
// and Reject.
func (c *Conn) WaitEstablished(p *sim.Process) (privateData []byte, err error) {
	for c.last.Kind == ConnRequested && !c.closed {
		c.changed.Wait(p, units.Never)
	}
	if c.closed {
		return nil, fmt.Errorf("the connection to %v: %w", c.remote, net.ErrClosed)
	}
	if c.last.Kind != ConnEstablished {
		return nil, &ConnError{c.last}
	}
	return c.last.PrivateData, nil
}

// WaitDisconnected waits until either side has ended the connection, or it has failed.
func (c *Conn) WaitDisconnected(p *sim.Process) {
	for c.last.Kind <= ConnEstablished && !c.closed {
		c.changed.Wait(p, units.Never)
	}
}

// recordEvent records an event of a connection, wakes waiting processes and calls the program's function.
func (c *Conn) recordEvent(e ConnEvent) {
	c.last = e
	c.changed.Broadcast()
	if c.notify != nil {
		c.notify(e)
	}
}

// Next waits for a request to connect, on a listener without notify. Its Conn must be accepted or
// rejected. net.ErrClosed: the listener is closed.
func (l *Listener) Next(p *sim.Process) (ConnEvent, error) {
	for len(l.requests) == 0 {
		if l.closed {
			return ConnEvent{}, fmt.Errorf("listener of %s: %w", l.device.Name(), net.ErrClosed)
		}
		l.came.Wait(p, units.Never)
	}
	e := l.requests[0]
	l.requests = l.requests[1:]
	return e, nil
}

func (l *Listener) recordEvent(e ConnEvent) {
	if l.notify != nil {
		l.notify(e)
		return
	}
	l.requests = append(l.requests, e)
	l.came.Broadcast()
}

// WaitResolve asks which queue pair takes datagrams at an address and port, and waits
// for the answer (Resolve). An error is Resolved.Err or that of Resolve.
func (d *Device) WaitResolve(p *sim.Process, to netip.AddrPort, privateData []byte) (Resolved, error) {
	var answer *Resolved
	var came sim.Cond
	err := d.Resolve(to, privateData, func(r Resolved) {
		answer = &r
		came.Broadcast()
	})
	if err != nil {
		return Resolved{}, err
	}
	for answer == nil {
		came.Wait(p, units.Never)
	}
	return *answer, answer.Err
}
