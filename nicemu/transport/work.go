package transport

import (
	"errors"

	"github.com/weftlab/weft/nicemu/cq"
)

// Op is what a work request of a send queue asks for.
type Op uint8

// The operations.
const (
	Send Op = iota
	SendImm
	SendInvalidate
	Write
	WriteImm
	Read
	CompareSwap
	FetchAdd
)

var opNames = [...]string{"send", "send-imm", "send-inv", "write", "write-imm", "read", "cas", "faa"}

// String is a short name.
func (o Op) String() string { return opNames[o] }

// atomic tells whether an operation is one on 8 bytes.
func (o Op) atomic() bool { return o == CompareSwap || o == FetchAdd }

// fetches tells whether an operation brings something back, and so counts
// against MaxRdAtomic.
func (o Op) fetches() bool { return o >= Read }

// write tells whether an operation is an RDMA WRITE.
func (o Op) write() bool { return o == Write || o == WriteImm }

// send tells whether an operation is a SEND.
func (o Op) send() bool { return o <= SendInvalidate }

// Flags are those of a work request.
type Flags uint8

// The flags.
const (
	Signaled  Flags = 1 << iota // it is to be completed also if it succeeds
	Solicited                   // the responder's completion is a solicited event
	Fence                       // it waits for all READs and atomics in front of it
)

// SendWR is a work request of a send queue. PostSend copies it, with the lists.
type SendWR struct {
	ID    uint64
	Op    Op
	Flags Flags

	// SGL is where bytes come from or, for READ and atomics, go to. If Inline
	// is not empty, its bytes are sent instead.
	SGL    []SGE
	Inline []byte

	RemoteVA uint64 // of WRITE, READ and atomics
	RKey     uint32 // likewise; of SendInvalidate the key to invalidate
	Imm      uint32
	Compare  uint64 // of CompareSwap
	Swap     uint64 // of CompareSwap; of FetchAdd what is added

	// Of UD: where to, as the NIC knows it (an address handle), which queue pair
	// there, and its key. If the highest bit of QKey is set, the queue pair's own
	// key is sent (§10.2.5).
	Path   uint32
	DestQP uint32
	QKey   uint32
}

// RecvWR is a work request of a receive queue. PostRecv copies it.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// Receives is where a queue pair takes receive requests from instead of its own
// queue: a shared receive queue.
type Receives interface {
	// Take moves the oldest request to wr, into whose SGL it copies; false if
	// there is none.
	Take(wr *RecvWR) bool
}

// Why a work request is not taken.
var (
	ErrQueueFull = errors.New("the queue is full: wait for completions before posting more")
	ErrState     = errors.New("the queue pair's state does not allow posting: modify it to RTS to send, to INIT at least to receive")
	ErrOp        = errors.New("the transport service has no such operation: READ and atomics need RC, WRITE needs RC or UC, invalidate needs RC")
	ErrSGL       = errors.New("the scatter/gather list has more elements than the queue pair was made for")
	ErrInline    = errors.New("the inline bytes are more than the queue pair was made for, or the operation brings bytes back, or there is a list beside them")
	ErrAtomic    = errors.New("an atomic operation needs a list of exactly 8 bytes")
	ErrShared    = errors.New("the queue pair takes from a shared receive queue: post there")
)

// sendWQE is a work request in the send queue.
type sendWQE struct {
	SendWR
	length  uint32 // of the message
	packets uint32 // PSNs that it takes
	first   PSN
	fault   cq.Status // found before it could be sent
}
