package uverbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// serveOnce answers a request, or reads one, and takes posted work. It returns how much that was, in work
// requests.
//
// A request is answered a turn after it was read, so that the work that was posted before it has been
// taken, and the NIC has had its turn.
func (x *session) serveOnce() (taken int) {
	switch {
	case x.request != nil:
		x.serveRequest()
		taken += perRequest
	case x.asked:
		x.readRequest()
	}
	if x.greeted && !x.ended {
		taken += x.takePosted()
	}
	return taken
}

// readRequest reads a request from the socket. The session ends if the process has hung up, or has sent an
// invalid one.
func (x *session) readRequest() {
	x.asked = false
	n, _, flags, _, err := unix.Recvmsg(x.socket, x.buffer, nil, unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return // epoll reports the socket again if there is more
	case err != nil || n < headLen || flags&unix.MSG_TRUNC != 0:
		x.endProcess()
		return
	}
	x.request = x.buffer[:n]
	x.server.deferSession(x)
}

// serveRequest answers the request that has been read.
func (x *session) serveRequest() {
	a, again := x.answerRequest(op(binary.LittleEndian.Uint32(x.request)), x.request[headLen:])
	if again {
		x.server.deferSession(x)
		return
	}
	x.request = nil
	err := a.sendAnswer(x.socket)
	a.closeFiles()
	if err != nil {
		x.endProcess()
	}
}

// answer is the result of a request.
type answer struct {
	err  error
	body any
	fds  []int // passed to the process and closed here
}

func failedAnswer(err error) answer { return answer{err: err} }

// sendAnswer sends the answer to the process. It fails if there is no room: then the process has left many
// answers unread.
func (a *answer) sendAnswer(socket int) error {
	var b bytes.Buffer
	head := [headLen]byte{}
	if a.err != nil {
		binary.LittleEndian.PutUint32(head[:], uint32(errnoOf(a.err)))
	}
	b.Write(head[:])
	var rights []byte
	switch {
	case a.err != nil:
		b.WriteString(a.err.Error())
	case a.body != nil:
		if err := binary.Write(&b, binary.LittleEndian, a.body); err != nil {
			return err
		}
	}
	if len(a.fds) > 0 {
		rights = unix.UnixRights(a.fds...)
	}
	return unix.Sendmsg(socket, b.Bytes()[:min(b.Len(), maxMessage)], rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

func (a *answer) closeFiles() {
	for _, fd := range a.fds {
		unix.Close(fd)
	}
}

// errnoOf returns the errno of an error for a program.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) && e != 0 {
		return e
	}
	return syscall.EINVAL
}

// request handles an operation.
type request func(x *session, body []byte) answer

// requestFor returns the request of a function with a decoded body.
func requestFor[Q any](f func(*session, *Q) answer) request {
	return func(x *session, body []byte) answer {
		var q Q
		if len(body) != binary.Size(q) {
			return failedAnswer(fmt.Errorf("%w: a request of %d bytes, not %d", syscall.EPROTO, len(body), binary.Size(q)))
		}
		if _, err := binary.Decode(body, binary.LittleEndian, &q); err != nil {
			return failedAnswer(fmt.Errorf("%w: %w", syscall.EPROTO, err))
		}
		return f(x, &q)
	}
}

// answerRequest handles a request. If again is true, it needs another turn.
func (x *session) answerRequest(o op, body []byte) (a answer, again bool) {
	f := requests[o]
	switch {
	case f == nil:
		return failedAnswer(fmt.Errorf("%w: unknown request %d", syscall.ENOSYS, o)), false
	case x.ended:
		return failedAnswer(syscall.EIO), false
	case o != opHello && !x.greeted:
		return failedAnswer(fmt.Errorf("%w: the first request has to be HELLO", syscall.EPROTO)), false
	case (o == opModifyQP || o == opModifySRQ) && x.drainQueue(body):
		return answer{}, true
	}
	return f(x, body), false
}

// drainQueue takes some of the requests posted to a queue before it is modified; its handle is the first
// word of the request. It returns true if there are more.
func (x *session) drainQueue(body []byte) bool {
	if len(body) < 4 {
		return false
	}
	k, ok := x.objects[binary.LittleEndian.Uint32(body)].it.(*queue)
	taken := 0
	return ok && k.takePosted(perTurn, &taken)
}

// makingRequest returns a request whose function makes an object, which has a cost.
func makingRequest[Q any](costOf func(*Q) cost, f func(*session, *Q) answer) request {
	return requestFor(func(x *session, q *Q) answer {
		c := costOf(q)
		if err := x.spendCost(c); err != nil {
			return failedAnswer(err)
		}
		x.cost = c
		a := f(x, q)
		if x.cost = (cost{}); a.err != nil {
			x.server.budget.releaseCost(&x.held, c)
		}
		return a
	})
}
