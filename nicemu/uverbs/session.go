package uverbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
)

// session is the connection of a process, and all that it has made.
type session struct {
	server *Server
	conn   *net.UnixConn
	socket *os.File // a descriptor of conn for the engine's thread
	pidfd  int      // keeps the process's number from meaning another one
	memory host

	// What follows is the engine's thread's.
	doorbell shm
	bell     int
	name     int32
	greeted  bool
	ended    bool
	objects  map[uint32]any
	handle   uint32 // the last that was given
	queues   []*queue
	free     []uint32 // numbers of queues
	behind   bool     // it is to have another turn
	pending  []*queue // that have not been emptied
}

// newSession takes a connection.
func newSession(s *Server, c *net.UnixConn) (*session, error) {
	x := &session{server: s, conn: c, bell: -1, objects: map[uint32]any{}}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	if perr != nil {
		return nil, perr
	}
	if x.pidfd, err = unix.PidfdOpen(int(peer.Pid), 0); err != nil {
		return nil, fmt.Errorf("process %d: %w", peer.Pid, err)
	}
	if x.socket, err = c.File(); err != nil {
		unix.Close(x.pidfd)
		return nil, err
	}
	fd := int(x.socket.Fd())
	// The file shares its flags with conn, which Go waits for in its poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	x.memory = &process{pid: int(peer.Pid), socket: fd}
	return x, nil
}

// run answers requests until the process hangs up or says what is none.
func (x *session) run() {
	buf := make([]byte, maxMessage)
	for {
		n, _, flags, _, err := x.conn.ReadMsgUnix(buf, nil)
		if err != nil || n < headLen || flags&unix.MSG_TRUNC != 0 {
			return
		}
		a := x.answer(op(binary.LittleEndian.Uint32(buf)), buf[headLen:n])
		err = a.send(x.conn)
		a.close()
		if err != nil {
			return
		}
	}
}

// answer is what a request leads to.
type answer struct {
	err  error
	body any
	fds  []int // that go to the process and are closed here
}

func failed(err error) answer { return answer{err: err} }

func (a *answer) send(c *net.UnixConn) error {
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
	_, _, err := c.WriteMsgUnix(b.Bytes()[:min(b.Len(), maxMessage)], rights, nil)
	return err
}

func (a *answer) close() {
	for _, fd := range a.fds {
		unix.Close(fd)
	}
}

// errnoOf is what a program is told of an error.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) && e != 0 {
		return e
	}
	return syscall.EINVAL
}

// request is how an operation is dealt with.
type request func(x *session, body []byte) answer

// on makes a request of a function that is run on the engine's thread.
func on[Q any](f func(*session, *Q) answer) request {
	return func(x *session, body []byte) answer {
		var q Q
		if len(body) != binary.Size(q) {
			return failed(fmt.Errorf("%w: a request of %d bytes, not %d", syscall.EPROTO, len(body), binary.Size(q)))
		}
		if _, err := binary.Decode(body, binary.LittleEndian, &q); err != nil {
			return failed(fmt.Errorf("%w: %w", syscall.EPROTO, err))
		}
		return f(x, &q)
	}
}

// answer deals with a request.
func (x *session) answer(o op, body []byte) (a answer) {
	f := requests[o]
	if f == nil {
		return failed(fmt.Errorf("%w: there is no request %d", syscall.ENOSYS, o))
	}
	err := x.server.do(func() {
		switch {
		case x.ended:
			a = failed(syscall.EIO)
		case o != opHello && !x.greeted:
			a = failed(fmt.Errorf("%w: the first request has to be HELLO", syscall.EPROTO))
		default:
			a = f(x, body)
		}
	})
	if err != nil {
		return failed(fmt.Errorf("%w: %w", syscall.EIO, err))
	}
	return a
}

// add gives an object its handle.
func (x *session) add(o any) uint32 {
	for {
		x.handle++
		if x.handle != 0 && x.objects[x.handle] == nil {
			x.objects[x.handle] = o
			return x.handle
		}
	}
}

// get finds an object of a kind.
func get[T any](x *session, handle uint32, what string) (o T, err error) {
	o, ok := x.objects[handle].(T)
	if !ok {
		return o, fmt.Errorf("%w: the process has no %s with handle %d", syscall.EINVAL, what, handle)
	}
	return o, nil
}

// done is the answer of requests without one.
func done(err error) answer { return answer{err: err} }

// remove ends an object that end can end.
func remove(x *session, handle uint32, end func() error) answer {
	err := end()
	if err == nil {
		delete(x.objects, handle)
	}
	return done(err)
}

func (x *session) hello(q *helloMsg) answer {
	if q.Version != abiVersion {
		return failed(fmt.Errorf("%w: the library is of version %d, the lab of %d: build both from the same source (scripts/verbs.sh)", syscall.EPROTONOSUPPORT, q.Version, abiVersion))
	}
	if x.greeted {
		return failed(fmt.Errorf("%w: HELLO again", syscall.EPROTO))
	}
	m, fd, err := newSHM("doorbell", doorbellBytes)
	if err != nil {
		return failed(err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		m.close()
		unix.Close(fd)
		return failed(fmt.Errorf("doorbell: %w", err))
	}
	s := x.server
	for s.next++; s.next < 0 || s.bells[s.next] != nil; s.next = max(s.next+1, 0) {
	}
	// The process's descriptor and this are of one file.
	if x.bell, err = unix.FcntlInt(uintptr(bell), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		err = s.watch(x.bell, s.next)
	}
	if err != nil {
		m.close()
		return answer{err: fmt.Errorf("doorbell: %w", err), fds: []int{fd, bell}}
	}
	x.doorbell, x.name, x.greeted = m, s.next, true
	s.bells[x.name] = x
	m.word(0).Store(1)
	return answer{fds: []int{fd, bell}}
}

// end ends what the process has made. Without an engine there is nobody whom it could
// concern.
func (x *session) end() {
	_ = x.server.do(x.destroy)
	x.memory.forget()
	for _, o := range x.objects {
		if c, ok := o.(interface{ release() }); ok {
			c.release()
		}
	}
	x.doorbell.close()
	if x.bell >= 0 {
		unix.Close(x.bell)
	}
	unix.Close(x.pidfd)
	x.socket.Close()
}

// destroy ends all objects, those that others are made of last.
func (x *session) destroy() {
	x.ended = true
	x.memory.forget()
	delete(x.server.bells, x.name)
	if x.bell >= 0 {
		_ = unix.EpollCtl(x.server.epoll, unix.EPOLL_CTL_DEL, x.bell, nil)
	}
	for rank := range ranks {
		for _, o := range x.objects {
			if ranks[rank](o) {
				x.finish(o)
			}
		}
	}
}

// ranks are the kinds of objects in the order in which they are ended.
var ranks = []func(any) bool{
	func(o any) bool { _, ok := o.(*cmID); return ok },
	func(o any) bool { q, ok := o.(*queue); return ok && q.qp != nil },
	func(o any) bool { q, ok := o.(*queue); return ok && q.srq != nil },
	func(o any) bool { _, ok := o.(*completions); return ok },
	func(o any) bool { _, ok := o.(*nicemu.AH); return ok },
	func(o any) bool { _, ok := o.(*nicemu.MW); return ok },
	func(o any) bool { _, ok := o.(*nicemu.MR); return ok },
	func(o any) bool { _, ok := o.(*domain); return ok },
}

// finish ends an object, which nothing that is left hinders.
func (x *session) finish(o any) {
	switch o := o.(type) {
	case *cmID:
		o.destroy()
	case *queue:
		o.destroy()
	case *completions:
		_ = o.destroy()
	case *nicemu.AH:
		_ = o.Destroy()
	case *nicemu.MW:
		_ = o.Dealloc()
	case *nicemu.MR:
		_ = o.Deregister()
	case *domain:
		_ = o.pd.Dealloc()
	}
}
