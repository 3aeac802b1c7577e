// Package uring reads and writes files through an io_uring (io_uring(7)): a thread
// hands its writes to the kernel in the same system call that collects completed
// reads.
//
// A Ring belongs to the thread that made it. The kernel completes requests only
// within Enter (IORING_SETUP_DEFER_TASKRUN), so the memory shared with it needs no
// synchronisation in between. It needs Linux 6.7 or later, for multishot reads.
package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Handler receives the results of its requests. It is called within Enter and
// Submit, and must not make requests then.
type Handler interface {
	// OnCompletion is given the number that the request had and its result, as the
	// system call would have returned it: a negative one is an errno. more means
	// that the request continues. buffer is the buffer that was read into.
	OnCompletion(number uint32, result int, buffer uint16, more bool)
}

// Ring is an io_uring.
type Ring struct {
	fd       int
	shared   []byte // the two rings
	entries  []byte
	sq       []entry
	cq       []completion
	sqHead   *uint32
	sqTail   *uint32
	cqHead   *uint32
	cqTail   *uint32
	tail     uint32 // of the filled entries
	entered  uint32 // of the entries that the kernel has taken
	handlers []Handler
	after    []func()
	files    int // open files
	room     int // for open files
	writing  int // writes not yet completed
	// The kernel gets pointers to these, and a goroutine's stack may move.
	opening int32
	ts      unix.Timespec
	arg     eventsArg
}

// eventsArg is struct io_uring_getevents_arg.
type eventsArg struct {
	mask     uint64
	maskSize uint32
	minWait  uint32
	timespec uint64
}

const (
	// minCompletions is the minimum room for completions. The kernel keeps any
	// excess until there is room.
	minCompletions = 4096
	// ownHandler is the handler of the ring's own requests.
	ownHandler = 0
	// isWrite is set in the handler number of a write.
	isWrite = 1 << 30
)

// New makes a ring for a number of files, with room for n queued requests, a power
// of two. The thread that uses the ring must call it.
func New(n, files int) (*Ring, error) {
	// A multishot read has many completions.
	p := params{flags: setupCQSize | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun | setupNoSQArray, cqEntries: uint32(max(8*n, minCompletions))}
	fd, _, errno := unix.RawSyscall(unix.SYS_IO_URING_SETUP, uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, explainErrno(errno)
	}
	r := &Ring{fd: int(fd), handlers: []Handler{nil}}
	if err := r.setUpRing(&p, files); err != nil {
		r.freeRing()
		return nil, err
	}
	return r, nil
}

// IsUnavailable reports whether New failed because this machine gives its user no ring: the kernel
// has none or forbids it, or all rings of the user would lock more memory than ulimit -l.
func IsUnavailable(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOMEM)
}

// explainErrno adds a likely cause to an error.
func explainErrno(errno unix.Errno) error {
	switch errno {
	case unix.ENOSYS:
		return fmt.Errorf("io_uring_setup: %w (the kernel has no io_uring, or a seccomp filter hides it)", errno)
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("io_uring_setup: %w (the sysctl kernel.io_uring_disabled or a security policy forbids it)", errno)
	case unix.EINVAL:
		return fmt.Errorf("io_uring_setup: %w (Linux 6.7 or later is needed)", errno)
	case unix.ENOMEM:
		return fmt.Errorf("io_uring_setup: %w (the limit of locked memory, ulimit -l, may be too low)", errno)
	}
	return fmt.Errorf("io_uring_setup: %w", errno)
}

func (r *Ring) setUpRing(p *params, files int) (err error) {
	unix.CloseOnExec(r.fd)
	if err := r.probeMultishot(); err != nil {
		return err
	}
	const protection, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	size := int(p.cq.cqes) + int(p.cqEntries)*int(unsafe.Sizeof(completion{}))
	if r.shared, err = unix.Mmap(r.fd, 0, size, protection, flags); err != nil {
		return fmt.Errorf("map an io_uring: %w", err)
	}
	size = int(p.sqEntries) * int(unsafe.Sizeof(entry{}))
	if r.entries, err = unix.Mmap(r.fd, offsetSQEs, size, protection, flags); err != nil {
		return fmt.Errorf("map an io_uring: %w", err)
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.shared[offset])) }
	r.sqHead, r.sqTail, r.cqHead, r.cqTail = at(p.sq.head), at(p.sq.tail), at(p.cq.head), at(p.cq.tail)
	r.sq = unsafe.Slice((*entry)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.cq = unsafe.Slice((*completion)(unsafe.Pointer(&r.shared[p.cq.cqes])), p.cqEntries)
	r.arg.timespec = uint64(uintptr(unsafe.Pointer(&r.ts)))
	if files == 0 {
		return nil
	}
	none := make([]int32, files)
	for i := range none {
		none[i] = -1
	}
	if err := r.registerResource(registerFiles, unsafe.Pointer(&none[0]), files); err != nil {
		return fmt.Errorf("register a table of %d files with an io_uring: %w (ulimit -n may be too low)", files, err)
	}
	r.room = files
	return nil
}

// probeMultishot checks that the kernel supports multishot reads.
func (r *Ring) probeMultishot() error {
	var p struct {
		last, n uint8
		_       uint16
		_       [3]uint32
		ops     [opReadMultishot + 1]struct {
			op, _ uint8
			flags uint16
			_     uint32
		}
	}
	if err := r.registerResource(registerProbe, unsafe.Pointer(&p), len(p.ops)); err != nil {
		return fmt.Errorf("probe an io_uring: %w", err)
	}
	if p.ops[opReadMultishot].flags&probeSupported == 0 {
		return errors.New("the kernel's io_uring has no multishot reads: Linux 6.7 or later is needed")
	}
	return nil
}

// RegisterHandler returns the number that identifies a handler's requests.
func (r *Ring) RegisterHandler(h Handler) int {
	r.handlers = append(r.handlers, h)
	return len(r.handlers) - 1
}

// Open registers a file and returns the number by which requests name it.
func (r *Ring) Open(fd int) (int, error) {
	if r.files == r.room {
		return 0, fmt.Errorf("an io_uring for %d files has no room for more", r.room)
	}
	r.opening = int32(fd)
	update := struct {
		offset, _ uint32
		fds       uint64
	}{offset: uint32(r.files), fds: uint64(uintptr(unsafe.Pointer(&r.opening)))}
	if err := r.registerResource(registerFilesUpdate, unsafe.Pointer(&update), 1); err != nil {
		return 0, fmt.Errorf("register a file with an io_uring: %w", err)
	}
	r.files++
	return r.files - 1, nil
}

// nextEntry returns a cleared entry for a request of a handler.
func (r *Ring) nextEntry(handler int, number uint32) *entry {
	if r.IsFull() {
		r.SubmitQueued()
	}
	e := &r.sq[r.tail&uint32(len(r.sq)-1)]
	*e = entry{user: uint64(handler)<<32 | uint64(number)}
	r.tail++
	return e
}

// QueuedRequests returns the number of requests waiting to be submitted.
func (r *Ring) QueuedRequests() int { return int(r.tail - r.entered) }

// IsFull reports whether the next request will first SubmitQueued.
func (r *Ring) IsFull() bool { return r.QueuedRequests() == len(r.sq) }

// ReadMultishot reads from a file again and again, each time into the next buffer
// of b, until that has none left or something fails. The file must not be
// non-blocking: the read would end when nothing is waiting.
func (r *Ring) ReadMultishot(handler, file int, b *Buffers) {
	e := r.nextEntry(handler, 0)
	e.op, e.flags, e.fd, e.group, e.offset = opReadMultishot, fixedFile|bufferSelect, int32(file), b.group, 1<<64-1
}

// PollMultishot notifies the handler each time a file becomes readable.
func (r *Ring) PollMultishot(handler, fd int) {
	e := r.nextEntry(handler, 0)
	e.op, e.fd, e.length, e.opFlags = opPollAdd, int32(fd), pollMulti, unix.POLLIN
}

// Write writes b. It fails rather than wait for room. b must not change until the
// next Enter or SubmitQueued has returned, and must be on the heap.
func (r *Ring) Write(handler, file int, number uint32, b []byte) {
	e := r.nextEntry(handler|isWrite, number)
	e.op, e.flags, e.fd, e.opFlags = opWrite, fixedFile, int32(file), rwfNoWait
	e.address, e.length = uint64(uintptr(unsafe.Pointer(&b[0]))), uint32(len(b))
	r.writing++
}

// AfterSubmit arranges for f to be called once, when the currently queued writes are
// done and their handlers have been called. f may call AfterSubmit again.
func (r *Ring) AfterSubmit(f func()) { r.after = append(r.after, f) }

// SubmitQueued performs the queued writes and starts the queued reads. Reads completed
// before are reported at the next Enter.
func (r *Ring) SubmitQueued() { r.enterKernel(0, 0, false) }

// SubmitAndWait submits, and reports completed reads. If there are none it waits for one, at
// most ns nanoseconds.
func (r *Ring) SubmitAndWait(ns int64) {
	if ns > 0 {
		r.enterKernel(1, ns, true)
		return
	}
	r.enterKernel(0, 0, true)
}

func (r *Ring) enterKernel(wait int, ns int64, gather bool) {
	n := r.QueuedRequests()
	atomic.StoreUint32(r.sqTail, r.tail)
	if gather && wait == 0 {
		r.enterWithoutWait(n, 0, enterGetEvents)
	} else if wait == 0 {
		r.enterWithoutWait(n, 0, 0)
	} else {
		r.sleepInKernel(n, ns)
	}
	// Failures are reported as completions: the kernel takes all requests, except
	// after a signal, for lack of memory or with too many completions pending.
	for r.entered = atomic.LoadUint32(r.sqHead); r.entered != r.tail; r.entered = atomic.LoadUint32(r.sqHead) {
		r.dispatchCompletions()
		r.enterWithoutWait(r.QueuedRequests(), 0, enterGetEvents)
	}
	r.dispatchCompletions()
	// A write that fails completes later than the others, but soon: none waits.
	for r.writing > 0 {
		r.enterWithoutWait(0, 1, enterGetEvents)
		r.dispatchCompletions()
	}
	if n > 0 {
		r.callAfterSubmit()
	}
}

// enterWithoutWait enters the kernel without waiting: Go's scheduler need not know.
func (r *Ring) enterWithoutWait(n, wait int, flags uintptr) {
	_, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(n), uintptr(wait), flags, 0, 0)
	switch errno {
	case unix.EBADF, unix.EBADFD, unix.EEXIST, unix.EINVAL, unix.EFAULT:
		panic(fmt.Sprintf("uring: io_uring_enter: %v (a ring belongs to one thread, until Close)", errno))
	}
}

// sleepInKernel enters the kernel for a while. Go's scheduler must know, or a garbage
// collection would wait for its end.
func (r *Ring) sleepInKernel(n int, ns int64) {
	r.ts = unix.NsecToTimespec(ns)
	_, _, _ = unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(n), 1, enterGetEvents|enterExtArg, uintptr(unsafe.Pointer(&r.arg)), unsafe.Sizeof(r.arg))
}

// dispatchCompletions passes completions to the handlers.
func (r *Ring) dispatchCompletions() {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	if head == tail {
		return
	}
	for ; head != tail; head++ {
		c := &r.cq[head&uint32(len(r.cq)-1)]
		id := int(c.user >> 32)
		if id&isWrite != 0 {
			r.writing--
		}
		if h := r.handlers[id&^isWrite]; h != nil {
			h.OnCompletion(uint32(c.user), int(c.result), uint16(c.flags>>16), c.flags&completionMore != 0)
		}
	}
	atomic.StoreUint32(r.cqHead, head)
}

// callAfterSubmit calls the functions given to AfterSubmit.
func (r *Ring) callAfterSubmit() {
	after := r.after
	r.after = nil
	for _, f := range after {
		f()
	}
	if r.after == nil {
		r.after = after[:0]
	}
}

// Close cancels all requests. Afterwards the files are no longer in use.
func (r *Ring) Close() {
	e := r.nextEntry(ownHandler, 0)
	e.op, e.opFlags = opAsyncCancel, cancelAll|cancelAny
	r.SubmitAndWait(0)
	r.SubmitAndWait(0)
	_ = r.registerResource(unregisterFiles, nil, 0)
	r.freeRing()
}

func (r *Ring) freeRing() {
	if r.entries != nil {
		_ = unix.Munmap(r.entries)
	}
	if r.shared != nil {
		_ = unix.Munmap(r.shared)
	}
	unix.Close(r.fd)
}

func (r *Ring) registerResource(op int, p unsafe.Pointer, n int) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uintptr(op), uintptr(p), uintptr(n), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
