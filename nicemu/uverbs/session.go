package uverbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
)

// session is the connection of a process, with all its objects.
type session struct {
	server *Server
	conn   *net.UnixConn
	socket *os.File // a descriptor of conn for the engine's thread
	memory host

	// The fields below belong to the engine's thread.
	doorbell shm
	bell     int
	name     int32
	greeted  bool
	ended    bool
	objects  map[uint32]object
	held     cost   // of the server's budget
	cost     cost   // of the object being made
	ports    int64  // that it holds
	handle   uint32 // the last one assigned
	queues   []*queue
	free     []uint32 // numbers of queues
	behind   bool     // waiting for another turn
	pending  []*queue // not emptied yet

	dying  []uint32 // handles that end is about to destroy
	unused []shm    // of destroyed objects: too slow to unmap on the engine's thread
}

// object is the object of a handle.
type object struct {
	it   any
	cost cost
}

// newSession makes the session of a connection.
func newSession(s *Server, c *net.UnixConn) (*session, error) {
	x := &session{server: s, conn: c, bell: -1, objects: map[uint32]object{}}
	var err error
	if x.socket, err = c.File(); err != nil {
		return nil, err
	}
	fd := int(x.socket.Fd())
	// The file shares its flags with conn, which Go waits for in its poller.
	if err = unix.SetNonblock(fd, true); err == nil {
		x.memory, err = peerOf(fd)
	}
	if err != nil {
		x.socket.Close()
		return nil, err
	}
	return x, nil
}

// run answers requests until the process hangs up or sends an invalid one.
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

// answer is the result of a request.
type answer struct {
	err  error
	body any
	fds  []int // passed to the process and closed here
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

// on returns a request that runs a function on the engine's thread.
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

// answer handles a request.
func (x *session) answer(o op, body []byte) (a answer) {
	f := requests[o]
	if f == nil {
		return failed(fmt.Errorf("%w: unknown request %d", syscall.ENOSYS, o))
	}
	for again := true; again; {
		again = false
		err := x.server.do(func() {
			switch {
			case x.ended:
				a = failed(syscall.EIO)
			case o != opHello && !x.greeted:
				a = failed(fmt.Errorf("%w: the first request has to be HELLO", syscall.EPROTO))
			case (o == opModifyQP || o == opModifySRQ) && x.drain(body):
				again = true
			default:
				a = f(x, body)
			}
		})
		if err != nil {
			return failed(fmt.Errorf("%w: %w", syscall.EIO, err))
		}
	}
	x.unmap()
	return a
}

// drain takes some of the requests posted to a queue before it is modified; its handle is the first
// word of the request. It returns true if there are more.
func (x *session) drain(body []byte) bool {
	if len(body) < 4 {
		return false
	}
	k, ok := x.objects[binary.LittleEndian.Uint32(body)].it.(*queue)
	taken := 0
	return ok && k.take(perTurn, &taken)
}

// unmap unmaps the memory of destroyed objects, on the session's goroutine.
func (x *session) unmap() {
	for i := range x.unused {
		x.unused[i].close()
	}
	x.unused = nil
}

// making returns a request whose function makes an object, which has a cost.
func making[Q any](costOf func(*Q) cost, f func(*session, *Q) answer) request {
	return on(func(x *session, q *Q) answer {
		c := costOf(q)
		if err := x.spend(c); err != nil {
			return failed(err)
		}
		x.cost = c
		a := f(x, q)
		if x.cost = (cost{}); a.err != nil {
			x.server.budget.give(&x.held, c)
		}
		return a
	})
}

// always returns a fixed cost.
func always[Q any](c cost) func(*Q) cost { return func(*Q) cost { return c } }

// maxObjects is the number of objects that a process can have. They are destroyed in one list.
const maxObjects = 1 << 18

// spend takes the cost of an object.
func (x *session) spend(c cost) error {
	if len(x.objects) >= maxObjects {
		return fmt.Errorf("%w: a process can have at most %d objects", syscall.ENOMEM, maxObjects)
	}
	return x.server.budget.take(&x.held, c)
}

// add assigns a handle to an object.
func (x *session) add(o any) uint32 {
	for {
		x.handle++
		if x.handle != 0 && x.objects[x.handle].it == nil {
			x.objects[x.handle] = object{o, x.cost}
			return x.handle
		}
	}
}

// drop frees an object's handle and returns its cost.
func (x *session) drop(handle uint32) {
	x.server.budget.give(&x.held, x.objects[handle].cost)
	delete(x.objects, handle)
}

// get finds an object of a type.
func get[T any](x *session, handle uint32, what string) (o T, err error) {
	o, ok := x.objects[handle].it.(T)
	if !ok {
		return o, fmt.Errorf("%w: the process has no %s with handle %d", syscall.EINVAL, what, handle)
	}
	return o, nil
}

// done returns an answer without a body.
func done(err error) answer { return answer{err: err} }

// remove destroys an object with end.
func remove(x *session, handle uint32, end func() error) answer {
	err := end()
	if err == nil {
		x.drop(handle)
	}
	return done(err)
}

func (x *session) hello(q *helloMsg) answer {
	if q.Version != abiVersion {
		return failed(fmt.Errorf("%w: the library has version %d, the lab %d: build both from the same source (scripts/verbs.sh)", syscall.EPROTONOSUPPORT, q.Version, abiVersion))
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
	// The process's descriptor and this one refer to the same file.
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

// end destroys the objects of the process. Without an engine this affects no other party.
func (x *session) end() {
	more := true
	err := x.server.do(x.leave)
	for err == nil && more {
		err = x.server.do(func() { more = x.destroySome() })
		x.unmap()
	}
	x.memory.forget()
	for _, o := range x.objects { // of an engine that has ended
		x.release(o.it)
	}
	x.unmap()
	x.doorbell.close()
	if x.bell >= 0 {
		unix.Close(x.bell)
	}
	x.memory.close()
	x.socket.Close()
	x.server.budget.give(&x.held, x.held) // of events that were not read
}

// leave ends everything that the process can do.
func (x *session) leave() {
	x.ended = true
	x.memory.forget()
	delete(x.server.bells, x.name)
	if x.bell >= 0 {
		_ = unix.EpollCtl(x.server.epoll, unix.EPOLL_CTL_DEL, x.bell, nil)
	}
}

// destroySome destroys some objects, dependent ones first, and reports whether there are more.
// Other sessions have turns in between: a process may have made many.
func (x *session) destroySome() bool {
	const some = 32
	if len(x.dying) == 0 {
		x.dying = x.order()
	}
	for range min(some, len(x.dying)) {
		h := x.dying[0]
		x.dying = x.dying[1:]
		if o := x.objects[h].it; o != nil { // else it has ended with another
			x.finish(o)
			x.release(o)
			x.drop(h)
		}
	}
	return len(x.objects) > 0
}

// order returns the handles of all objects in the order of their destruction.
func (x *session) order() (all []uint32) {
	var by [len(ranks) + 1][]uint32
	for h, o := range x.objects {
		rank := 0
		for rank < len(ranks) && !ranks[rank](o.it) {
			rank++
		}
		by[rank] = append(by[rank], h)
	}
	return slices.Concat(by[:]...)
}

// release releases the process's resources of a destroyed object.
func (x *session) release(o any) {
	switch o := o.(type) {
	case *queue:
		x.unused = append(x.unused, o.mem)
		o.mem = shm{}
	case *completions:
		x.unused = append(x.unused, o.mem)
		o.mem = shm{}
	case interface{ release() }: // has a pipe
		o.release()
	}
}

// ranks are the types of objects in the order of their destruction.
var ranks = [...]func(any) bool{
	func(o any) bool { _, ok := o.(*cmID); return ok },
	func(o any) bool { q, ok := o.(*queue); return ok && q.qp != nil },
	func(o any) bool { q, ok := o.(*queue); return ok && q.srq != nil },
	func(o any) bool { _, ok := o.(*completions); return ok },
	func(o any) bool { _, ok := o.(*nicemu.AH); return ok },
	func(o any) bool { _, ok := o.(*nicemu.MW); return ok },
	func(o any) bool { _, ok := o.(*nicemu.MR); return ok },
	func(o any) bool { _, ok := o.(*domain); return ok },
}

// finish destroys an object on which no remaining object depends.
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
