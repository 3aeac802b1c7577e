package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/nicemu/cq"
)

// Wait polls the queue until there is an entry, for up to timeout; units.Never is
// for ever. It is how a process waits for its work: nothing has to be armed, and
// no event has to be acknowledged. The error is ETIMEDOUT, or that of Poll.
func (c *CQ) Wait(p *sim.Process, dst []cq.Completion, timeout units.Time) (int, error) {
	end := after(p, timeout)
	for {
		if n, err := c.Poll(dst); n > 0 || err != nil {
			return n, err
		}
		if !c.came.Wait(p, end-p.Now()) {
			return 0, fmt.Errorf("%w: no completion within %v", syscall.ETIMEDOUT, timeout)
		}
	}
}

// after is when a timeout ends.
func after(p *sim.Process, timeout units.Time) units.Time {
	if timeout >= units.Never-p.Now() {
		return units.Never
	}
	return p.Now() + timeout
}

// ConnError is why there is no connection, or none any more.
type ConnError struct{ Event ConnEvent }

// Error says what has become of the connection.
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

// Unwrap gives the errno that rdma_cm has for it.
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

// Established waits until the connection is there, and gives the peer's private
// data. An error is a *ConnError.
func (c *Conn) Established(p *sim.Process) (privateData []byte, err error) {
	for c.last.Kind == ConnRequested {
		c.changed.Wait(p, units.Never)
	}
	if c.last.Kind != ConnEstablished {
		return nil, &ConnError{c.last}
	}
	return c.last.PrivateData, nil
}

// Disconnected waits until either side has ended the connection.
func (c *Conn) Disconnected(p *sim.Process) {
	for c.last.Kind == ConnRequested || c.last.Kind == ConnEstablished {
		c.changed.Wait(p, units.Never)
	}
}

// tell notes what has become of a connection, for those who wait and for the
// program's function.
func (c *Conn) tell(e ConnEvent) {
	c.last = e
	c.changed.Broadcast()
	if c.notify != nil {
		c.notify(e)
	}
}

// Next waits for a request to connect, of a listener without a function to tell.
func (l *Listener) Next(p *sim.Process) ConnEvent {
	for len(l.requests) == 0 {
		l.came.Wait(p, units.Never)
	}
	e := l.requests[0]
	l.requests = l.requests[1:]
	return e
}

func (l *Listener) tell(e ConnEvent) {
	if l.notify != nil {
		l.notify(e)
		return
	}
	l.requests = append(l.requests, e)
	l.came.Broadcast()
}
