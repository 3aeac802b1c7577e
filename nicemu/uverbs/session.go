package uverbs

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
)

// session is the connection of a process, with all its objects.
type session struct {
	server *Server
	socket int
	memory host
	unused chan shm // of destroyed objects: too slow to unmap on the engine's thread

	over     chan struct{} // closed when the process has hung up, or the server closes
	overOnce sync.Once     // closes over

	// The fields below belong to the engine's thread.
	doorbell shm
	bell     int
	name     int32
	greeted  bool
	ended    bool
	asked    bool   // there is a request in the socket
	request  []byte // that has been read and is not answered yet; nil if there is none
	buffer   []byte // for requests
	objects  map[uint32]object
	held     cost   // of the server's budget
	cost     cost   // of the object being made
	ports    int64  // that it holds
	handle   uint32 // the last one assigned
	queues   []*queue
	free     []uint32 // numbers of queues
	behind   bool     // waiting for another turn
	pending  []*queue // not emptied yet

	dying []uint32 // handles that end is about to destroy
}

// object is the object of a handle.
type object struct {
	it   any
	cost cost
}

// unusedBacklog is how many mappings wait for the session's goroutine. If there are more, the
// engine's thread unmaps them.
const unusedBacklog = 256

// newSession makes the session of a connection, which it closes: the session has a descriptor of its
// own.
func newSession(s *Server, c *net.UnixConn) (*session, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	socket := -1
	var dup error
	if err := raw.Control(func(fd uintptr) { socket, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || dup != nil {
		return nil, errors.Join(err, dup)
	}
	memory, err := peerOf(socket)
	if err != nil {
		unix.Close(socket)
		return nil, err
	}
	return makeSession(s, socket, memory), nil
}

// makeSession makes the session of a process with this memory; both are the session's to close.
func makeSession(s *Server, socket int, memory host) *session {
	return &session{
		server: s, socket: socket, memory: memory, bell: -1, name: nobody, objects: map[uint32]object{}, buffer: make([]byte, maxMessage),
		unused: make(chan shm, unusedBacklog), over: make(chan struct{}),
	}
}

// run lets the engine's thread answer requests until the process hangs up or the server closes. In
// the meantime it unmaps the memory of destroyed objects.
func (x *session) run() {
	var err error
	if x.server.do(func() { err = x.watchSocket() }) != nil {
		return
	}
	if err != nil {
		x.server.warn(fmt.Errorf("an RDMA program: %w", err))
		return
	}
	for {
		select {
		case m := <-x.unused:
			m.close()
		case <-x.over:
			return
		}
	}
}

// hangUp makes run return.
func (x *session) hangUp() { x.overOnce.Do(func() { close(x.over) }) }

// watchSocket makes the engine's thread watch the socket.
func (x *session) watchSocket() error {
	s := x.server
	for s.next++; s.next < 0 || s.members[s.next] != nil; s.next = max(s.next+1, 0) {
	}
	x.name = s.next
	s.members[x.name] = x
	if err := s.watch(x.socket, unix.EPOLLIN, x.name, socketReady); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// unmapHere is the size up to which the engine's thread unmaps memory itself, because waking the
// session's goroutine would take longer.
const unmapHere = 1 << 18

// discard unmaps the memory of a destroyed object.
func (x *session) discard(m shm) {
	if len(m.bytes) > unmapHere {
		select {
		case x.unused <- m:
			return
		default:
		}
	}
	m.close()
}

// unmap unmaps what run has left.
func (x *session) unmap() {
	for {
		select {
		case m := <-x.unused:
			m.close()
		default:
			return
		}
	}
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
	return x.server.budget.acquire(&x.held, c)
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
	x.server.budget.release(&x.held, x.objects[handle].cost)
	delete(x.objects, handle)
}

// get finds an object of a type. ENOENT: there is none with that handle, as in the kernel
// (lookup_get_idr_uobject).
func get[T any](x *session, handle uint32, what string) (o T, err error) {
	o, ok := x.objects[handle].it.(T)
	if !ok {
		return o, fmt.Errorf("%w: the process has no %s with handle %d", syscall.ENOENT, what, handle)
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
	m, fd, err := x.server.share("doorbell", doorbellBytes)
	if err != nil {
		return failed(err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		m.close()
		unix.Close(fd)
		return failed(fmt.Errorf("doorbell: %w", err))
	}
	// The process's descriptor and this one refer to the same file.
	if x.bell, err = unix.FcntlInt(uintptr(bell), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		err = x.server.watch(x.bell, bellEvents, x.name, bellRung)
	}
	if err != nil {
		m.close()
		return answer{err: fmt.Errorf("doorbell: %w", err), fds: []int{fd, bell}}
	}
	x.doorbell, x.greeted = m, true
	m.word(0).Store(1)
	return answer{fds: []int{fd, bell}}
}

// end destroys the objects of the process. Without an engine this affects no other party.
func (x *session) end() {
	more := true
	err := x.server.do(x.endProcess)
	for err == nil && more {
		err = x.server.do(func() { more = x.destroySome() })
		x.unmap()
	}
	x.memory.markGone()
	for _, o := range x.objects { // of an engine that has ended
		x.release(o.it)
	}
	x.unmap()
	x.doorbell.close()
	if x.bell >= 0 {
		unix.Close(x.bell)
	}
	x.memory.close()
	unix.Close(x.socket)
	x.server.budget.release(&x.held, x.held) // of events that were not read
}

// endProcess ends everything that the process can do.
func (x *session) endProcess() {
	if x.ended {
		return
	}
	x.ended = true
	x.memory.markGone()
	delete(x.server.members, x.name)
	for _, fd := range [...]int{x.socket, x.bell} {
		if fd >= 0 {
			_ = unix.EpollCtl(x.server.epoll, unix.EPOLL_CTL_DEL, fd, nil)
		}
	}
	x.hangUp()
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
		x.discard(o.mem)
		o.mem = shm{}
	case *completions:
		x.discard(o.mem)
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
	case *opened:
		delete(x.server.contexts, o)
	}
}
