package uring

// The parts of the kernel's interface used here, named as in include/uapi/linux/io_uring.h.
const (
	setupCQSize       = 1 << 3
	setupSubmitAll    = 1 << 7
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	setupNoSQArray    = 1 << 16

	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3

	offsetSQEs = 0x10000000

	opPollAdd       = 6
	opAsyncCancel   = 14
	opWrite         = 23
	opReadMultishot = 49

	fixedFile    = 1 << 0
	bufferSelect = 1 << 5

	pollMulti = 1 << 0

	cancelAll = 1 << 0
	cancelAny = 1 << 2

	completionMore = 1 << 1

	registerFiles       = 2
	unregisterFiles     = 3
	registerFilesUpdate = 6
	registerProbe       = 8
	registerBufferRing  = 22
	probeSupported      = 1 << 0

	rwfNoWait = 8
)

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
	_                                                    [3]uint32
	sq                                                   struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// entry is struct io_uring_sqe.
type entry struct {
	op, flags uint8
	_         uint16
	fd        int32
	offset    uint64
	address   uint64
	length    uint32
	opFlags   uint32
	user      uint64
	group     uint16
	_         uint16
	_         uint32
	_         [2]uint64
}

// completion is struct io_uring_cqe.
type completion struct {
	user   uint64
	result int32
	flags  uint32
}

// bufferEntry is struct io_uring_buf. In the first entry of a ring, tail is the tail
// of the ring.
type bufferEntry struct {
	address uint64
	length  uint32
	id      uint16
	tail    uint16
}
