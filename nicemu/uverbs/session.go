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

// runDetached lets the engine's thread answer requests until the process hangs up or the server closes. In
// the meantime it unmaps the memory of destroyed objects.
func (x *session) runDetached() {
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
			m.closeMemory()
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
	if err := s.watchFD(x.socket, unix.EPOLLIN, x.name, socketReady); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// unmapHere is the size up to which the engine's thread unmaps memory itself, because waking the
// session's goroutine would take longer.
const unmapHere = 1 << 18

// unmapLater unmaps the memory of a destroyed object.
func (x *session) unmapLater(m shm) {
	if len(m.bytes) > unmapHere {
		select {
		case x.unused <- m:
			return
		default:
		}
	}
	m.closeMemory()
}

// unmapAll unmaps what run has left.
func (x *session) unmapAll() {
	for {
		select {
		case m := <-x.unused:
			m.closeMemory()
		default:
			return
		}
	}
}

// fixedCost returns a fixed cost.
func fixedCost[Q any](c cost) func(*Q) cost { return func(*Q) cost { return c } }

// maxObjects is the number of objects that a process can have. They are destroyed in one list.
const maxObjects = 1 << 18

// spendCost takes the cost of an object.
func (x *session) spendCost(c cost) error {
	if len(x.objects) >= maxObjects {
		return fmt.Errorf("%w: a process can have at most %d objects", syscall.ENOMEM, maxObjects)
	}
	return x.server.budget.acquireCost(&x.held, c)
}

// addObject assigns a handle to an object.
func (x *session) addObject(o any) uint32 {
	for {
		x.handle++
		if x.handle != 0 && x.objects[x.handle].it == nil {
			x.objects[x.handle] = object{o, x.cost}
			return x.handle
		}
	}
}

// dropHandle frees an object's handle and returns its cost.
func (x *session) dropHandle(handle uint32) {
	x.server.budget.releaseCost(&x.held, x.objects[handle].cost)
	delete(x.objects, handle)
}

// getObject finds an object of a type. ENOENT: there is none with that handle, as in the kernel
// (lookup_get_idr_uobject).
func getObject[T any](x *session, handle uint32, what string) (o T, err error) {
	o, ok := x.objects[handle].it.(T)
	if !ok {
		return o, fmt.Errorf("%w: the process has no %s with handle %d", syscall.ENOENT, what, handle)
	}
	return o, nil
}

// doneAnswer returns an answer without a body.
func doneAnswer(err error) answer { return answer{err: err} }

// removeObject destroys an object with end.
func removeObject(x *session, handle uint32, end func() error) answer {
	err := end()
	if err == nil {
		x.dropHandle(handle)
	}
	return doneAnswer(err)
}

func (x *session) handleHello(q *helloMsg) answer {
	if q.Version != abiVersion {
		return failedAnswer(fmt.Errorf("%w: the library has version %d, the lab %d: build both from the same source (scripts/verbs.sh)", syscall.EPROTONOSUPPORT, q.Version, abiVersion))
	}
	if x.greeted {
		return failedAnswer(fmt.Errorf("%w: HELLO again", syscall.EPROTO))
	}
	m, fd, err := x.server.share("doorbell", doorbellBytes)
	if err != nil {
		return failedAnswer(err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		m.closeMemory()
		unix.Close(fd)
		return failedAnswer(fmt.Errorf("doorbell: %w", err))
	}
	// The process's descriptor and this one refer to the same file.
	if x.bell, err = unix.FcntlInt(uintptr(bell), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		err = x.server.watchFD(x.bell, bellEvents, x.name, bellRung)
	}
	if err != nil {
		m.closeMemory()
		return answer{err: fmt.Errorf("doorbell: %w", err), fds: []int{fd, bell}}
	}
	x.doorbell, x.greeted = m, true
	m.wordAt(0).Store(1)
	return answer{fds: []int{fd, bell}}
}

// destroyObjects destroys the objects of the process. Without an engine this affects no other party.
func (x *session) destroyObjects() {
	more := true
	err := x.server.do(x.endProcess)
	for err == nil && more {
		err = x.server.do(func() { more = x.destroySome() })
		x.unmapAll()
	}
	x.memory.markEnded()
	for _, o := range x.objects { // of an engine that has ended
		x.releaseObject(o.it)
	}
	x.unmapAll()
	x.doorbell.closeMemory()
	if x.bell >= 0 {
		unix.Close(x.bell)
	}
	x.memory.closeProcess()
	unix.Close(x.socket)
	x.server.budget.releaseCost(&x.held, x.held) // of events that were not read
}

// endProcess ends everything that the process can do.
func (x *session) endProcess() {
	if x.ended {
		return
	}
	x.ended = true
	x.memory.markEnded()
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
		x.dying = x.destructionOrder()
	}
	for range min(some, len(x.dying)) {
		h := x.dying[0]
		x.dying = x.dying[1:]
		if o := x.objects[h].it; o != nil { // else it has ended with another
			x.destroyObject(o)
			x.releaseObject(o)
			x.dropHandle(h)
		}
	}
	return len(x.objects) > 0
}

// destroyIDs destroys the IDs of the connection manager of a process that has ended, which hold
// ports that another process wants.
func (x *session) destroyIDs() {
	for _, h := range x.destructionOrder() {
		if o := x.objects[h].it; isID(o) {
			x.destroyObject(o)
			x.releaseObject(o)
			x.dropHandle(h)
		}
	}
}

// destructionOrder returns the handles of all objects in the order of their destruction.
func (x *session) destructionOrder() (all []uint32) {
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

// releaseObject releases the process's resources of a destroyed object.
func (x *session) releaseObject(o any) {
	switch o := o.(type) {
	case *queue:
		x.unmapLater(o.mem)
		o.mem = shm{}
	case *completions:
		x.unmapLater(o.mem)
		o.mem = shm{}
	case *openXRCD:
		o.closeFile()
	case interface{ releasePipe() }: // has a pipe
		o.releasePipe()
	}
}

// ranks are the types of objects in the order of their destruction.
var ranks = [...]func(any) bool{
	isID,
	func(o any) bool { q, ok := o.(*queue); return ok && q.qp != nil },
	func(o any) bool { q, ok := o.(*queue); return ok && q.srq != nil },
	func(o any) bool { _, ok := o.(*openXRCD); return ok },
	func(o any) bool { _, ok := o.(*completions); return ok },
	func(o any) bool { _, ok := o.(*nicemu.AH); return ok },
	func(o any) bool { _, ok := o.(*nicemu.MW); return ok },
	func(o any) bool { _, ok := o.(*nicemu.MR); return ok },
	func(o any) bool { _, ok := o.(*domain); return ok },
}

func isID(o any) bool { _, ok := o.(*cmID); return ok }

// destroyObject destroys an object on which no remaining object depends.
func (x *session) destroyObject(o any) {
	switch o := o.(type) {
	case *cmID:
		o.destroyID()
	case *queue:
		o.destroyQueue()
	case *openXRCD:
		x.server.leaveXRCD(o)
	case *completions:
		_ = o.destroyQueue()
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
